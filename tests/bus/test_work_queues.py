"""Work queues: acknowledged publishing, deduplication, slots, redelivery, dead letters, drain, outages."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from agentchat.bus.bus import Bus
from agentchat.bus.queue_consumer import QueueDelivery
from agentchat.contracts import ids, messages, subjects, wire
from agentchat.contracts.timings import ACK_WAIT_SECONDS
from agentchat.runtime.readiness_flag import ReadinessFlag
from tests.bus.nats_server import NatsServer
from tests.bus.queue_state import wait_until_nobody_pulls
from tests.contracts.wire_examples import MESSAGE_EXAMPLES

CHAT = next(m for m in MESSAGE_EXAMPLES if isinstance(m, messages.ChatRequested))


def chat(**changes: object) -> messages.ChatRequested:
    return msgspec.structs.replace(CHAT, trace_id=ids.make_id().replace("-", ""), **changes)


class Worker:
    """A consumer of REQUESTS, and the deliveries that it has received."""

    def __init__(
        self,
        bus: Bus,
        handle: Callable[[QueueDelivery], Awaitable[None]] | None = None,
        readiness: ReadinessFlag | None = None,
    ) -> None:
        self.deliveries: asyncio.Queue[QueueDelivery] = asyncio.Queue()
        self.stop = asyncio.Event()
        self._handle = handle
        consuming = bus.queues.consume("REQUESTS", self._take, slots=4, stop=self.stop, readiness=readiness)
        self.task = asyncio.create_task(consuming)

    async def _take(self, delivery: QueueDelivery) -> None:
        self.deliveries.put_nowait(delivery)
        if self._handle is not None:
            await self._handle(delivery)

    async def take_next(self, seconds: float = 15.0) -> messages.ChatRequested:
        async with asyncio.timeout(seconds):
            delivery = await self.deliveries.get()
        return wire.decode_message(messages.ChatRequested, delivery.data)

    async def end(self) -> None:
        self.stop.set()
        async with asyncio.timeout(30):
            await self.task


async def test_a_request_reaches_one_worker_with_its_trace_context(bus: Bus) -> None:
    worker = Worker(bus)
    request = chat()
    await bus.queues.request_chat(request)
    async with asyncio.timeout(20):
        delivery = await worker.deliveries.get()
    await worker.end()
    assert wire.decode_message(messages.ChatRequested, delivery.data) == request
    assert (delivery.subject, delivery.attempt) == (subjects.format_requests(request.account_id), 1)
    assert delivery.headers["Nats-Msg-Id"] == f"{request.trace_id}:1"


@pytest.mark.parametrize("stops", [True, False])
async def test_a_message_leaves_the_queue_though_none_follows_it(
    nats_server: NatsServer, stops: bool
) -> None:
    async with Bus.connect(nats_server.url, name="test") as bus:
        async with Bus.connect(nats_server.url, name="stops") as worked_on:
            worker = Worker(worked_on)
            await bus.queues.request_chat(chat())
            await worker.take_next()
            if not stops:
                await wait_until_acknowledged(bus)
            await worker.end()
        await wait_until_acknowledged(bus)


async def wait_until_acknowledged(bus: Bus) -> None:
    async with asyncio.timeout(ACK_WAIT_SECONDS / 2):
        while (await bus._jetstream.get_stream_state("REQUESTS"))[1]:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.02)


async def test_a_duplicate_publication_is_one_request(bus: Bus) -> None:
    request, other = chat(), chat()
    await bus.queues.request_chat(request)
    await bus.queues.request_chat(request)
    await bus.queues.request_chat(other)
    worker = Worker(bus)
    first, second = await worker.take_next(), await worker.take_next()
    await worker.end()
    assert [first, second] == [request, other]
    assert worker.deliveries.empty()


async def test_a_handler_that_frees_its_slot_makes_room_and_is_waited_for(bus: Bus) -> None:
    free = asyncio.Event()

    async def wait_outside(delivery: QueueDelivery) -> None:
        delivery.free_slot()
        await free.wait()

    worker = Worker(bus, wait_outside)
    requests = [chat() for _ in range(6)]
    for request in requests:
        await bus.queues.request_chat(request)
    assert [await worker.take_next() for _ in requests] == requests, "of four slots"
    worker.stop.set()
    done, _ = await asyncio.wait([worker.task], timeout=0.3)
    assert not done, "the handlers go on"
    free.set()
    await worker.end()


async def test_a_message_whose_handler_failed_is_redelivered(bus: Bus) -> None:
    attempts = []

    async def fail_once(delivery: QueueDelivery) -> None:
        attempts.append(delivery.attempt)
        if delivery.attempt == 1:
            raise ValueError("the first time")

    worker = Worker(bus, fail_once)
    request = chat()
    await bus.queues.request_chat(request)
    assert await worker.take_next() == await worker.take_next() == request
    await worker.end()
    assert attempts == [1, 2]


async def test_a_nak_with_a_delay_redelivers_after_it(bus: Bus) -> None:
    loop = asyncio.get_running_loop()
    times = []

    async def put_back(delivery: QueueDelivery) -> None:
        times.append(loop.time())
        if delivery.attempt == 1:
            await delivery.nak(0.5)

    worker = Worker(bus, put_back)
    await bus.queues.request_chat(chat())
    await worker.take_next()
    await worker.take_next()
    await worker.end()
    assert 0.45 < times[1] - times[0] < 3


async def test_shutdown_leaves_the_next_message_to_others(bus: Bus) -> None:
    first = Worker(bus)
    await first.end()
    request = chat()
    await bus.queues.request_chat(request)
    second = Worker(bus)
    assert await second.take_next(2) == request
    await second.end()


async def test_worker_takes_messages_only_while_ready(bus: Bus, shared_nats: NatsServer) -> None:
    readiness = ReadinessFlag()
    worker = Worker(bus, readiness=readiness)
    await bus.queues.request_chat(chat())
    await worker.take_next()
    readiness.set(False)
    await wait_until_nobody_pulls(shared_nats.url, "REQUESTS")
    request = chat()
    await bus.queues.request_chat(request)
    with pytest.raises(TimeoutError):
        await worker.take_next(0.3)
    assert (await bus.queues.measure_backlog("REQUESTS")).waiting == 1
    readiness.set(True)
    assert await worker.take_next(1.0) == request
    readiness.set(False)
    await worker.end()


@pytest.mark.parametrize("wiped", [False, True])
async def test_worker_unready_while_nats_was_away_takes_messages_again(
    nats_server: NatsServer, wiped: bool
) -> None:
    readiness = ReadinessFlag()
    async with Bus.connect(nats_server.url, name="test") as bus:
        worker = Worker(bus, readiness=readiness)
        await bus.queues.request_chat(chat())
        await worker.take_next()
        await nats_server.kill(wipe=wiped)
        readiness.set(wiped)  # else as a worker whose database was away too
        await nats_server.start()
        request = chat()
        await bus.queues.request_chat(request)
        readiness.set(True)
        while await worker.take_next(5) != request:
            pass  # the first one again: its acknowledgement died with the server
        await worker.end()


async def test_backlog_is_taken_by_one_request_and_within_the_slots(bus: Bus) -> None:
    requests = [chat() for _ in range(10)]
    for request in requests:
        await bus.queues.request_chat(request)
    free, worked_at_once, most = asyncio.Event(), 0, 0

    async def work(_: QueueDelivery) -> None:
        nonlocal worked_at_once, most
        worked_at_once += 1
        most = max(most, worked_at_once)
        await free.wait()
        worked_at_once -= 1

    worker = Worker(bus, work)
    taken = [await worker.take_next() for _ in range(4)]
    free.set()
    taken += [await worker.take_next() for _ in range(6)]
    await worker.end()
    assert [each.trace_id for each in taken] == [each.trace_id for each in requests]
    assert most == 4


@pytest.mark.slow
async def test_heartbeats_keep_the_message_of_a_long_handler(bus: Bus) -> None:
    free = asyncio.Event()
    worker = Worker(bus, lambda _: _wait_until(free))
    await bus.queues.request_chat(chat())
    await worker.take_next()
    with pytest.raises(TimeoutError):
        await worker.take_next(12)  # past ack_wait
    free.set()
    await worker.end()


async def test_a_service_may_start_before_nats(nats_server: NatsServer) -> None:
    await nats_server.kill(wipe=True)

    async def connect() -> None:
        async with Bus.connect(nats_server.url, name="test") as bus:
            await bus.ping()

    connecting = asyncio.create_task(connect())
    await asyncio.wait([connecting], timeout=0.4)
    await nats_server.start()
    async with asyncio.timeout(30):
        await connecting


async def test_a_message_past_its_last_delivery_is_dead_lettered_once(nats_server: NatsServer) -> None:
    exhausted = asyncio.Queue()  # type: ignore[var-annotated]

    async def put_back(delivery: QueueDelivery) -> None:
        await delivery.nak()

    async def handle(message: object) -> None:
        exhausted.put_nowait(message)

    async with Bus.connect(nats_server.url, name="test") as bus:
        request = chat()
        await bus.queues.request_chat(request)
        worker = Worker(bus, put_back)
        stop = asyncio.Event()
        burying = asyncio.create_task(bus.queues.follow_max_deliveries(handle, stop=stop))
        async with asyncio.timeout(20):
            message = await exhausted.get()
        assert (message.stream, message.deliveries) == ("REQUESTS", 50)
        assert wire.decode_message(messages.ChatRequested, message.data) == request
        stop.set()
        async with asyncio.timeout(30):
            await burying
        await worker.end()
        assert exhausted.empty()
        buried = await bus._jetstream.get_last_message("DEAD", "chat.dead.REQUESTS")
        assert buried is not None
        letter = wire.decode_message(messages.DeadLettered, buried.data)
        assert "50 deliveries" in letter.reason
        assert wire.decode_message(messages.ChatRequested, letter.payload.encode()) == request


async def _wait_until(until: asyncio.Event) -> None:
    await until.wait()
