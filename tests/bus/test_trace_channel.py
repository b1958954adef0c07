"""The trace channel: live frames, what TRACES keeps of them, tool results, cancellations."""

import asyncio
from collections.abc import Sequence

import msgspec
import nats
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentchat.bus.bus import Bus
from agentchat.contracts import examples, frames, ids, messages, subjects, tool_messages, wire
from agentchat.runtime import tracing
from tests.bus.nats_server import NatsServer
from tests.contracts.wire_examples import FRAME_EXAMPLES, MESSAGE_EXAMPLES

FINISHED = next(m for m in MESSAGE_EXAMPLES if isinstance(m, tool_messages.ToolFinished))


def make_trace_id() -> str:
    return ids.make_id().replace("-", "")


def build_delta(seq: int, text: str = "x") -> frames.DeltaFrame:
    return frames.DeltaFrame(seq=seq, attempt=1, round=1, text=text, offset=seq - 1)


async def read_kept(bus: Bus, trace_id: str, count: int) -> list[frames.Frame]:
    """Read a trace from TRACES until it has `count` frames; followers may have them before."""
    async with asyncio.timeout(20):
        while len(found := await bus.traces.read_frames(trace_id)) < count:
            pass
    return found


class Reader:
    """A follower of a trace, and the frames that it has received."""

    def __init__(self) -> None:
        self.frames: list[frames.Frame] = []
        self._changed = asyncio.Event()

    def deliver(self, frame: frames.Frame) -> None:
        self.frames.append(frame)
        self._changed.set()

    async def wait_for(self, count: int, seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while len(self.frames) < count:
                self._changed.clear()
                await self._changed.wait()


@pytest.mark.parametrize(
    "sent",
    [
        FRAME_EXAMPLES,
        [build_delta(seq, f"{seq} ") for seq in range(1, 2501)],
        [build_delta(seq, "x" * 60_000) for seq in range(1, 101)],
    ],
    ids=["of each kind", "of a long run", "more at once than the buffer holds"],
)
async def test_every_frame_arrives_in_order_and_is_kept(bus: Bus, sent: Sequence[frames.Frame]) -> None:
    trace_id, reader = make_trace_id(), Reader()
    subscription = await bus.traces.follow_trace(trace_id, reader.deliver)
    for frame in sent:
        await bus.traces.publish_frame(trace_id, frame)
    await reader.wait_for(len(sent))
    await subscription.close()
    assert reader.frames == list(sent)
    assert await read_kept(bus, trace_id, len(sent)) == reader.frames


async def test_a_closed_subscription_delivers_nothing_more(bus: Bus) -> None:
    trace_id, closed, open_one = make_trace_id(), Reader(), Reader()
    first = await bus.traces.follow_trace(trace_id, closed.deliver)
    second = await bus.traces.follow_trace(trace_id, open_one.deliver)
    await first.close()
    await bus.traces.publish_frame(trace_id, build_delta(1))
    await open_one.wait_for(1)
    await second.close()
    assert closed.frames == []


async def test_frame_carries_its_publishers_trace_context(bus: Bus, shared_nats: NatsServer) -> None:
    begun = frames.Accepted(seq=1, attempt=1, conversation_id=ids.make_id())
    client = await nats.connect(shared_nats.url)
    subscription = await client.subscribe("chat.traces.*")
    await client.request("$JS.API.INFO")  # answered after the subscription, as `flush` is not
    tracing.configure("test", None, exporter=InMemorySpanExporter())
    with tracing.open_trace("test"):
        trace_id = tracing.get_trace_id()
        await bus.traces.publish_frame(trace_id, begun)
    tracing.shut_down()
    with tracing.open_trace("test"):
        await bus.traces.publish_frame(trace_id, begun)
    recorded = await subscription.next_msg(timeout=20)
    unrecorded = await subscription.next_msg(timeout=20)
    await client.close()
    assert recorded.subject == subjects.format_trace(trace_id)
    assert recorded.headers is not None
    assert recorded.headers["traceparent"].split("-")[1] == trace_id
    assert wire.decode_frame(recorded.data) == begun
    assert unrecorded.headers is None
    assert wire.decode_frame(unrecorded.data) == begun


async def test_an_invalid_frame_is_skipped(bus: Bus, shared_nats: NatsServer) -> None:
    trace_id, reader = make_trace_id(), Reader()
    subscription = await bus.traces.follow_trace(trace_id, reader.deliver)
    client = await nats.connect(shared_nats.url)
    await client.publish(subjects.format_trace(trace_id), b"{")
    await client.publish(subjects.format_trace(trace_id), wire.encode(build_delta(1)))
    await reader.wait_for(1)
    await client.close()
    await subscription.close()
    assert reader.frames == await read_kept(bus, trace_id, 1) == [build_delta(1)]


async def test_frames_that_cannot_be_sent_are_warned_of_once_in_a_while(
    nats_server: NatsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Bus.connect(nats_server.url, name="test") as bus:
        await nats_server.kill()
        for seq in range(1, 101):
            await bus.traces.publish_frame(make_trace_id(), build_delta(seq, "x" * 100_000))
    warnings = [line for line in capsys.readouterr().out.splitlines() if "frames_dropped" in line]
    assert len(warnings) == 1
    assert "warning" in warnings[0]
    assert "count=1 " in warnings[0]


async def test_publishing_never_waits_for_a_frozen_nats(nats_server: NatsServer) -> None:
    async with Bus.connect(nats_server.url, name="test") as bus:
        await nats_server.freeze()
        loop = asyncio.get_running_loop()
        began = loop.time()
        for seq in range(200):
            await bus.traces.publish_frame(make_trace_id(), build_delta(seq, "x" * 100_000))
            await asyncio.sleep(0)
        assert loop.time() - began < 30
        nats_server.thaw()


async def test_tool_results_are_followed_and_found_again(bus: Bus) -> None:
    trace_id = make_trace_id()
    got: asyncio.Queue[tool_messages.ToolFinished] = asyncio.Queue()
    subscription = await bus.traces.follow_tool_results(trace_id, got.put_nowait)
    first = msgspec.structs.replace(FINISHED, trace_id=trace_id)
    odd = msgspec.structs.replace(first, call_id="call.with *wild> signs")
    await bus.traces.finish_tool(first)
    await bus.traces.finish_tool(odd)
    await bus.traces.finish_tool(first)
    async with asyncio.timeout(20):
        assert [await got.get(), await got.get()] == [first, odd]
    await subscription.close()
    assert await bus.traces.read_tool_results(trace_id) == {first.call_id: first, odd.call_id: odd}
    assert await bus.traces.read_tool_results(make_trace_id()) == {}


async def test_a_cancellation_reaches_everyone_and_is_remembered(bus: Bus) -> None:
    got: asyncio.Queue[messages.CancelRequested] = asyncio.Queue()
    subscription = await bus.traces.follow_cancels(got.put_nowait)
    request = messages.CancelRequested(trace_id=make_trace_id(), account_id=examples.ACCOUNT)
    assert not await bus.traces.is_cancelled(request.trace_id)
    await bus.traces.cancel(request)
    async with asyncio.timeout(20):
        assert await got.get() == request
    await subscription.close()
    assert await bus.traces.is_cancelled(request.trace_id)


async def test_a_recorded_result_frees_its_bytes_and_stays_known(bus: Bus) -> None:
    async def count_held_bytes() -> int:
        info = await bus._connection.client.jetstream().stream_info(subjects.RESULTS)
        return info.state.bytes

    before = await count_held_bytes()
    finished = msgspec.structs.replace(FINISHED, trace_id=make_trace_id(), output="x" * 256 * 1024)
    await bus.traces.finish_tool(finished)
    assert await count_held_bytes() > before + 256 * 1024
    await bus.traces.shorten_tool_result(finished)
    assert await count_held_bytes() < before + 1024
    (short,) = (await bus.traces.read_tool_results(finished.trace_id)).values()
    assert (short.call_id, short.recorded, short.output) == (finished.call_id, True, "")


async def test_a_reader_that_breaks_down_stops_no_other(bus: Bus) -> None:
    def break_down(_: frames.Frame) -> None:
        raise RuntimeError("broken")

    trace_id, reader = make_trace_id(), Reader()
    broken = await bus.traces.follow_trace(trace_id, break_down)
    following = await bus.traces.follow_trace(trace_id, reader.deliver)
    await bus.traces.publish_frame(trace_id, build_delta(1))
    await bus.ping()  # by the same connection, which is not lost
    await reader.wait_for(1)
    await broken.close()
    await following.close()
