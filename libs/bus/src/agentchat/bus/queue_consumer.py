"""Consume a work queue by pull requests, with a task for each message, up to the number of slots."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.js.api import Header

from agentchat.bus import stream_settings
from agentchat.bus.connection import Connection
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.jetstream import JetStream
from agentchat.contracts.timings import HEARTBEAT_SECONDS
from agentchat.runtime import logs
from agentchat.runtime.readiness_flag import ReadinessFlag
from agentchat.runtime.task_cancellation import wait_first

PULL_SECONDS = 5.0
"""Seconds that one pull request waits for messages."""
_SILENCE_SECONDS = 7.0
"""After these a pull request is taken for lost."""
_REQUEST_EXPIRED = "408"
_HELD_SECONDS = 0.5
"""Far less than ACK_WAIT_SECONDS, after which the message would be delivered again."""
_TROUBLE_SECONDS = 0.25
_CLOSE_SECONDS = 2.0
_NAK_SECONDS = (1.0, 2.0, 5.0, 10.0)
_AWAY = (nats.errors.Error, OSError)
"""Includes APIError (of the first) and TimeoutError (of the second)."""


class Acknowledgements:
    """Acknowledgements of a queue, each sent after the next one is due, or half a second later at the latest.

    If the worker dies before that, the message is delivered again, as after any other step. The delay saves
    work: a queue that becomes empty drops its file and begins another, which with one request at a time is a
    third of what a chat costs the server, measured. What a handler publishes last goes in the same write.
    """

    def __init__(self) -> None:
        self._held: list[Msg] = []
        self._sending: asyncio.Task[None] | None = None

    async def add(self, message: Msg) -> None:
        """Acknowledge the messages before this one now, and this one a little later."""
        await self.send()
        self._held.append(message)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_later())

    async def send(self) -> None:
        """Send the held acknowledgements. If NATS does not read one in time, it redelivers the message."""
        held, self._held = self._held, []
        for message in held:
            with contextlib.suppress(*_AWAY):
                await message.ack()

    async def _send_later(self) -> None:
        await asyncio.sleep(_HELD_SECONDS)
        self._sending = None
        await self.send()


class QueueDelivery:
    """A delivered message, settled once by `ack`, `nak` or `terminate`.

    A message whose handler returns without settling it is acknowledged. It is delivered again after 10 s
    without a sign of life, up to 50 times. `slot_freed`: another message may use its slot. None of the
    methods raises: if NATS does not receive one, it delivers the message again.
    """

    def __init__(
        self, message: Msg, acknowledgements: Acknowledgements, on_slot_freed: Callable[[], None]
    ) -> None:
        self.subject = message.subject
        self.data = message.data
        self.headers = message.headers or {}
        self.attempt = message.metadata.num_delivered  # counted from 1
        self.settled = False
        self.slot_freed = False
        self._message = message
        self._acknowledgements = acknowledgements
        self._on_slot_freed = on_slot_freed

    def free_slot(self) -> None:
        """Let another message take this one's slot, because this handler will wait for long."""
        if not self.slot_freed:
            self.slot_freed = True
            self._on_slot_freed()

    async def ack(self, *, at_once: bool = False) -> None:
        """Remove the message from the queue, within half a second.

        `at_once`: before anything that is sent after this on the same connection.
        """
        if at_once:
            await self._settle(self._message.ack)
        elif not self.settled:
            self.settled = True
            await self._acknowledgements.add(self._message)

    async def nak(self, delay: float = 0.0) -> None:
        """Put the message back, to be delivered again after `delay` seconds.

        Each delivery counts towards the 50.
        """
        await self._settle(lambda: self._message.nak(delay))

    async def terminate(self) -> None:
        """Remove the message from the queue although it was not handled."""
        await self._settle(self._message.term)

    async def extend(self) -> None:
        """Keep the message for another 10 s. The bus does this every 3 s while the handler runs."""
        if not self.settled:
            with contextlib.suppress(*_AWAY):
                await self._message.in_progress()

    async def _settle(self, send: Callable[[], Awaitable[None]]) -> None:
        if not self.settled:
            self.settled = True
            with contextlib.suppress(*_AWAY):
                await send()


Handle = Callable[[QueueDelivery], Awaitable[None]]


class QueueConsumer:
    """One `consume` call: its pull request and its running handlers.

    A pull request asks for as many messages as there are free slots; each message is handled as it is read.
    nats-py's `fetch` holds back the first message of a batch until the batch is full or its time is over, and
    one message a request costs a chat at 32 at once another 5 ms of CPU (decision 94).
    """

    def __init__(
        self,
        connection: Connection,
        jetstream: JetStream,
        stream: str,
        handle: Handle,
        slots: int,
        readiness: ReadinessFlag | None = None,
    ) -> None:
        self._connection = connection
        self._jetstream = jetstream
        self._stream = stream
        self._handle = handle
        self._slots = slots
        self._readiness = readiness or ReadinessFlag()
        self._running: dict[asyncio.Task[None], QueueDelivery] = {}
        self._acknowledgements = Acknowledgements()
        self._room = asyncio.Event()
        self._taking = False
        """While False, a message that arrives is put back."""
        self._pull_inbox = ""
        self._wanted = 0
        """Messages that the current pull request may still bring."""
        self._pull_ended = asyncio.Event()
        self._pull_error: str | None = None
        self._log = logs.get_logger("bus").bind(stream=stream)

    async def run(self, stop: asyncio.Event) -> None:
        """Take messages while ready until `stop` is set, then wait for the running handlers."""
        heartbeats = asyncio.create_task(self._send_heartbeats())
        try:
            while not stop.is_set():
                try:
                    await wait_first(stop.wait(), self._readiness.wait_ready())
                    await self._take_until(stop)
                except (*_AWAY, BusUnavailable) as error:
                    self._log.warning("pull_failed", reason=str(error))
                    await self._recover()
            while self._running:
                await asyncio.wait(self._running)
        finally:
            heartbeats.cancel()
            await self._acknowledgements.send()

    async def _take_until(self, stop: asyncio.Event) -> None:
        """Take messages until `stop` is set or the worker is not ready.

        The server drops a pull request whose inbox nobody subscribes to.
        """
        inbox = self._connection.client.new_inbox()
        subscription = await self._connection.subscribe(f"{inbox}.*", self._receive)
        remove_listener = self._connection.add_listener(self._pull_ended.set)
        self._taking = True
        try:
            await wait_first(stop.wait(), self._readiness.wait_unready(), self._pull_repeatedly(inbox))
        finally:
            self._taking = False
            remove_listener()
            if self._connection.client.is_connected:  # else drain would keep the subscription
                with contextlib.suppress(*_AWAY):
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await subscription.drain()  # type: ignore[no-untyped-call]
            await self._connection.unsubscribe(subscription)

    async def _pull_repeatedly(self, inbox: str) -> None:
        """Send a pull request whenever slots are free and the one before has ended. Raises BusUnavailable."""
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{stream_settings.CONSUMERS[self._stream]}"
        for number in itertools.count():
            await self._connection.wait_up()
            while (batch := self._count_free_slots()) == 0:
                self._room.clear()
                await self._room.wait()
            self._pull_inbox, self._wanted, self._pull_error = f"{inbox}.{number}", batch, None
            self._pull_ended.clear()
            request = {"batch": batch, "expires": round(PULL_SECONDS * 1e9)}
            await self._connection.publish(subject, msgspec.json.encode(request), reply=self._pull_inbox)
            async with asyncio.timeout(_SILENCE_SECONDS):
                await self._pull_ended.wait()
            if self._pull_error:
                raise BusUnavailable(f"the pull request ended: {self._pull_error}")

    def _receive(self, message: Msg) -> None:
        """Handle a message, or note the end of the current pull request, which has a status and no text."""
        headers = message.headers or {}
        status = headers.get(Header.STATUS)
        if status is None:
            self._start(QueueDelivery(message, self._acknowledgements, self._room.set))
            self._wanted -= 1
            if self._wanted == 0:
                self._pull_ended.set()
        elif message.subject == self._pull_inbox:
            if status != _REQUEST_EXPIRED:
                self._pull_error = f"{status} {headers.get(Header.DESCRIPTION)}"
            self._pull_ended.set()

    def _count_free_slots(self) -> int:
        taken = sum(not delivery.slot_freed for delivery in self._running.values())
        return max(0, self._slots - taken)

    def _start(self, delivery: QueueDelivery) -> None:
        task = asyncio.create_task(self._run(delivery) if self._taking else delivery.nak())
        self._running[task] = delivery
        task.add_done_callback(self._on_finished)

    def _on_finished(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._room.set()

    async def _run(self, delivery: QueueDelivery) -> None:
        try:
            await self._handle(delivery)
            await delivery.ack()
        except asyncio.CancelledError:
            await delivery.nak()
            raise
        except Exception:  # noqa: BLE001 - the outermost frame of a handler
            self._log.exception("handler_failed", subject=delivery.subject, attempt=delivery.attempt)
            await delivery.nak(_NAK_SECONDS[min(delivery.attempt, len(_NAK_SECONDS)) - 1])

    async def _recover(self) -> None:
        """Create the stream and its consumer again, which may be gone."""
        try:
            await self._jetstream.provision()
        except BusUnavailable as error:
            self._log.warning("provision_failed", error=str(error))
        await asyncio.sleep(_TROUBLE_SECONDS)

    async def _send_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            for delivery in tuple(self._running.values()):
                await delivery.extend()
