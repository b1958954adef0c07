"""Send requests and answer them over core NATS: one server of a queue group answers, or nobody does."""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import msgspec
import nats.errors
from nats.aio.msg import Msg

from agentchat.bus.connection import Connection
from agentchat.bus.errors import BusUnavailable, MessageTooLarge, RequestDeclined
from agentchat.bus.subscription import Subscription
from agentchat.contracts import wire
from agentchat.contracts.message_base import BusMessage
from agentchat.runtime import logs, tracing

Answer = Callable[[bytes], Awaitable[bytes]]

FAILED_HEADER = "Chat-Failed"
"""Set on the empty reply to a request whose handler failed: nobody waits for a time-out."""

ENCODING_HEADER = "Content-Encoding"
"""`deflate` (RFC 1950) on a request that is larger than a message can be."""

MOST_BYTES = 128 * 1024 * 1024
"""The largest request before compression."""


class Rpc:
    """Request and reply."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def serve(self, subject: str, queue: str, handle: Answer) -> Subscription:
        """Answer requests on `subject`, each in a task of its own, as a member of the group `queue`."""
        return await self._serve(subject, queue, handle, set())

    @contextlib.asynccontextmanager
    async def serve_until_closed(self, subject: str, queue: str, handle: Answer) -> AsyncIterator[None]:
        """Answer requests while the block runs; requests in progress by then are finished."""
        running: set[asyncio.Task[None]] = set()
        subscription = await self._serve(subject, queue, handle, running)
        try:
            yield
        finally:
            await subscription.close()
            await asyncio.gather(*running)

    async def _serve(
        self, subject: str, queue: str, handle: Answer, running: set[asyncio.Task[None]]
    ) -> Subscription:
        log = logs.get_logger("bus").bind(subject=subject)

        async def answer(message: Msg) -> None:
            stated = message.headers or {}
            with tracing.open_span(f"serve {subject}", context=tracing.extract(stated)):
                failed = None
                try:
                    body = await handle(await _decompress(message.data, stated))
                except Exception as error:
                    if isinstance(error, RequestDeclined):
                        log.warning("request_declined", reason=str(error))
                    else:
                        log.exception("serve_failed")
                    body, failed = b"", {FAILED_HEADER: type(error).__name__}
                try:
                    await self._connection.publish(message.reply, body, headers=failed)
                except BusUnavailable as error:
                    log.warning("reply_lost", reason=str(error))

        def receive(message: Msg) -> None:
            task = asyncio.create_task(answer(message))
            running.add(task)
            task.add_done_callback(running.discard)

        subscription = await self._connection.subscribe(subject, receive, queue)
        await self._connection.flush()  # a process that says it is ready must be found by others
        return Subscription(self._connection, subscription)

    async def ask(self, subject: str, message: BusMessage, reply: type[wire.M], *, timeout: float) -> wire.M:
        """Send one request and return its reply, within `timeout` seconds.

        Raises:
            BusUnavailable: Nobody serves, the server failed, or time is up.
            MessageTooLarge: The request does not fit even when compressed.
        """
        data, encoding = await self._prepare(wire.encode(message))
        try:
            answer = await self._connection.request(
                subject, data, seconds=timeout, headers=tracing.inject(encoding)
            )
        except nats.errors.NoRespondersError as error:
            raise BusUnavailable(f"nobody serves {subject}") from error
        if failed := (answer.headers or {}).get(FAILED_HEADER):
            raise BusUnavailable(f"{subject} failed: {failed}")
        try:
            return wire.decode_message(reply, answer.data)
        except msgspec.DecodeError as error:
            raise BusUnavailable(f"{subject} answered with something else") from error

    async def _prepare(self, data: bytes) -> tuple[bytes, dict[str, str]]:
        """Return the request, compressed if needed, and the header that says so. Raises MessageTooLarge."""
        room = self._connection.message_room
        if len(data) <= room:
            return data, {}
        packed = await asyncio.to_thread(zlib.compress, data)
        if len(packed) > room or len(data) > MOST_BYTES:
            raise MessageTooLarge(
                f"it takes {len(data):,} bytes, {len(packed):,} compressed; the bus carries {room:,} of up to"
                f" {MOST_BYTES:,}"
            )
        return packed, {ENCODING_HEADER: "deflate"}


async def _decompress(data: bytes, stated: Mapping[str, str]) -> bytes:
    """Return the request as it was before compression. Raises MessageTooLarge, zlib.error."""
    if stated.get(ENCODING_HEADER) != "deflate":
        return data
    inflating = zlib.decompressobj()
    found = await asyncio.to_thread(inflating.decompress, data, MOST_BYTES)
    if not inflating.eof:
        raise MessageTooLarge(f"it takes more than {MOST_BYTES:,} bytes")
    return found
