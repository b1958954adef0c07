"""Work queues: a pull loop with a task for each message, as many at a time as there are slots.

The loop never works in a callback, asks again after a reconnect, makes a wiped stream again, and takes
silence longer than a request can last for a stall (docs/change/reliability.md NATS).
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from bus import headers, streams
from bus.connection import Connection
from bus.delivery import Acknowledgements, Delivery
from bus.errors import BusUnavailable
from bus.jetstream import JetStream
from contracts.timings import HEARTBEAT_SECONDS
from runtime import logs
from runtime.following import wait_for_event
from runtime.readiness import ReadinessFlag

Handle = Callable[[Delivery], Awaitable[None]]

_EXPIRES_SECONDS = 5.0
_SILENCE_SECONDS = 7.0
_TROUBLE_SECONDS = 0.25
_CLOSE_SECONDS = 2.0
_NAK_SECONDS = (1.0, 2.0, 5.0, 10.0)
_ENDED_EMPTY = (404, 408)


class Consumption:
    """One `consume` call: its open pull request and its running handlers."""

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
        self._taking = False  # else what still arrives is put back
        self._inbox = connection.client.new_inbox()
        self._running: dict[asyncio.Task[None], Delivery] = {}
        self._freed = 0  # of these have freed their slots
        self._acknowledgements = Acknowledgements(connection)
        self._wake = asyncio.Event()
        self._pulls = 0
        self._wanted = 0  # messages that the open pull request may still bring; 0 when none is open
        self._trouble = False
        self._log = logs.get_logger("bus").bind(stream=stream)

    async def run(self, stop: asyncio.Event) -> None:
        """Take messages while ready until `stop` is set, then wait for the handlers that run."""
        stopping = asyncio.create_task(stop.wait())
        beating = asyncio.create_task(self._beat())
        try:
            while not stop.is_set():
                await _first(stopping, self._readiness.wait_ready())
                if not stop.is_set():
                    await self._take(stopping)
            while self._running:
                await asyncio.wait(self._running)
        finally:
            stopping.cancel()
            beating.cancel()
            self._acknowledgements.send()

    async def _take(self, stopping: asyncio.Task[bool]) -> None:
        """Until `stopping` is done, or it is not ready: the server drops a pull request without an inbox."""
        client = self._connection.client
        self._taking, self._wanted = True, 0
        subscription = client.subscribe_direct(f"{self._inbox}.*", self._receive)
        remove = self._connection.add_listener(self._reconnected)
        taking = asyncio.create_task(self._pull_for_ever())
        try:
            await _first(stopping, taking, self._readiness.wait_unready())
        finally:
            remove()
            taking.cancel()
            await asyncio.wait((taking,))
            self._taking = False
            await client.drain_direct(subscription, _CLOSE_SECONDS)
        if not taking.cancelled():
            taking.result()

    async def _pull_for_ever(self) -> None:
        while True:
            self._wake.clear()
            if self._trouble:
                await self._recover()
            elif self._wanted == 0 and (free := self._slots - len(self._running) + self._freed) > 0:
                await self._pull(free)
            else:
                await self._wait()

    async def _pull(self, batch: int) -> None:
        await self._connection.wait_up()
        self._pulls += 1
        self._wanted = batch
        request = {"batch": batch, "expires": int(_EXPIRES_SECONDS * 1_000_000_000)}
        consumer = streams.CONSUMERS[self._stream]
        try:
            await self._connection.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{consumer}",
                msgspec.json.encode(request),
                reply=f"{self._inbox}.{self._pulls}",
            )
        except BusUnavailable:
            self._ended(trouble=True)

    async def _wait(self) -> None:
        woken = await wait_for_event(self._wake, _SILENCE_SECONDS if self._wanted else None)
        if not woken and self._connection.client.is_connected:
            self._log.warning("consumer_stalled")
            self._ended(trouble=True)

    async def _recover(self) -> None:
        """The stream or its consumer is gone, or does not answer: make sure that both are there."""
        self._trouble = False
        try:
            await self._jetstream.provision()
        except BusUnavailable as error:
            self._log.warning("provision_failed", error=str(error))
        await asyncio.sleep(_TROUBLE_SECONDS)

    def _ended(self, *, trouble: bool = False) -> None:
        self._wanted = 0
        self._trouble = self._trouble or trouble
        self._wake.set()

    def _reconnected(self) -> None:
        """The server has forgotten the pull request with the old connection."""
        self._ended()

    def _receive(self, subject: str, reply: str, data: bytes, block: bytes | None) -> None:
        status = headers.status(block)
        if not status:
            self._acknowledgements.send()
            self._start(
                Delivery(
                    *(self._connection, subject, reply, data, block),
                    self._acknowledgements,
                    self._slot_freed,
                )
            )
            self._wanted = max(0, self._wanted - 1)
            if self._wanted == 0:
                self._wake.set()
        elif status != 100 and subject == f"{self._inbox}.{self._pulls}":
            if status not in _ENDED_EMPTY:
                self._log.info("pull_ended", status=status, reason=headers.description(block))
            self._ended(trouble=status not in _ENDED_EMPTY)

    def _start(self, delivery: Delivery) -> None:
        work = self._run(delivery) if self._taking else delivery.nak()
        task = asyncio.create_task(work)
        self._running[task] = delivery
        task.add_done_callback(self._finished)

    def _slot_freed(self) -> None:
        self._freed += 1
        self._wake.set()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._freed -= self._running.pop(task).slot_freed
        self._wake.set()

    async def _run(self, delivery: Delivery) -> None:
        try:
            await self._handle(delivery)
            await delivery.ack()
        except asyncio.CancelledError:
            await delivery.nak()
            raise
        except Exception:  # noqa: BLE001 - the outermost frame of a handler
            self._log.exception("handler_failed", subject=delivery.subject, attempt=delivery.attempt)
            await delivery.nak(_NAK_SECONDS[min(delivery.attempt, len(_NAK_SECONDS)) - 1])

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            for delivery in tuple(self._running.values()):
                await delivery.in_progress()


async def _first(*work: Awaitable[object]) -> None:
    """Return when one of these is done; coroutines among them are cancelled then."""
    given = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(given, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each, future in zip(work, given, strict=True):
            if each is not future:
                future.cancel()
