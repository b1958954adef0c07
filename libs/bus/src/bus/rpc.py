"""Request and reply over core NATS: one of the servers of a queue group answers, or nobody does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import nats.errors

from bus import headers
from bus.connection import Connection
from bus.errors import BusUnavailable, Declined
from bus.subscription import Subscription
from contracts import wire
from contracts.bus_message import BusMessage
from runtime import logs, telemetry

Answer = Callable[[bytes], Awaitable[bytes]]

FAILED_HEADER = "Chat-Failed"
"""Set on the empty reply to a request whose handler failed, so that nobody waits for a time-out."""


class Rpc:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def serve(self, subject: str, queue: str, handle: Answer) -> Subscription:
        """Answer requests on `subject`, each in a task of its own, as one of the group `queue`."""
        return self._serve(subject, queue, handle, set())

    @contextlib.asynccontextmanager
    async def serving(self, subject: str, queue: str, handle: Answer) -> AsyncIterator[None]:
        """`serve` while the block runs; what has begun by then is brought to its end."""
        running: set[asyncio.Task[None]] = set()
        subscription = self._serve(subject, queue, handle, running)
        try:
            yield
        finally:
            await subscription.close()
            await asyncio.gather(*running)

    def _serve(
        self, subject: str, queue: str, handle: Answer, running: "set[asyncio.Task[None]]"
    ) -> Subscription:
        log = logs.get_logger("bus").bind(subject=subject)

        async def answer(reply: str, data: bytes, block: bytes | None) -> None:
            with telemetry.tracer().start_as_current_span(
                f"serve {subject}", context=telemetry.extract(headers.parse(block))
            ):
                failed = None
                try:
                    body = await handle(data)
                except Exception as error:
                    if isinstance(error, Declined):
                        log.warning("request_declined", reason=str(error))
                    else:
                        log.exception("serve_failed")
                    body, failed = b"", {FAILED_HEADER: type(error).__name__}
                try:
                    await self._connection.publish(reply, body, headers=failed)
                except BusUnavailable as error:
                    log.warning("reply_lost", reason=str(error))

        def receive(_subject: str, reply: str, data: bytes, block: bytes | None) -> None:
            task = asyncio.create_task(answer(reply, data, block))
            running.add(task)
            task.add_done_callback(running.discard)

        subscription = self._connection.client.subscribe_direct(subject, receive, queue)
        return Subscription(self._connection, subscription)

    async def ask(self, subject: str, message: BusMessage, reply: type[wire.M], *, timeout: float) -> wire.M:
        """One request and its reply, within `timeout` seconds.

        Raises BusUnavailable where nobody serves, the server failed, or time is up.
        """
        try:
            answer = await self._connection.request(
                subject, wire.encode(message), seconds=timeout, headers=telemetry.inject({})
            )
        except nats.errors.NoRespondersError as error:
            raise BusUnavailable(f"nobody serves {subject}") from error
        if failed := (answer.headers or {}).get(FAILED_HEADER):
            raise BusUnavailable(f"{subject} failed: {failed}")
        try:
            return wire.decode_message(reply, answer.data)
        except msgspec.DecodeError as error:
            raise BusUnavailable(f"{subject} answered with something else") from error
