"""Request and reply over core NATS: one of the servers of a queue group answers, or nobody does."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import nats.errors

from bus import headers
from bus.connection import Connection
from bus.errors import BusUnavailable
from bus.subscription import Subscription
from contracts import messages, wire
from runtime import logs, telemetry

Answer = Callable[[bytes], Awaitable[bytes]]

FAILED_HEADER = "Chat-Failed"
"""Set on the empty reply to a request whose handler failed, so that nobody waits for a time-out."""


async def serve(connection: Connection, subject: str, queue: str, handle: Answer) -> Subscription:
    """Answer requests on `subject`, each in a task of its own, as one of the group `queue`."""
    log = logs.get_logger("bus").bind(subject=subject)
    running: set[asyncio.Task[None]] = set()

    async def answer(reply: str, data: bytes, block: bytes | None) -> None:
        with telemetry.tracer().start_as_current_span(
            f"serve {subject}", context=telemetry.extract(headers.parse(block))
        ):
            failed: dict[str, str] | None = None
            try:
                body = await handle(data)
            except Exception as error:
                log.exception("serve_failed")
                body, failed = b"", {FAILED_HEADER: type(error).__name__}
            try:
                await connection.publish(reply, body, failed)
            except BusUnavailable as error:
                log.warning("reply_lost", reason=str(error))

    def receive(_subject: str, reply: str, data: bytes, block: bytes | None) -> None:
        task = asyncio.create_task(answer(reply, data, block))
        running.add(task)
        task.add_done_callback(running.discard)

    subscription = await connection.client.subscribe_direct(subject, receive, queue)
    return Subscription(connection, subscription)


async def ask(
    connection: Connection, subject: str, message: messages.BusMessage, reply: type[wire.M], seconds: float
) -> wire.M:
    """One request. Raises BusUnavailable where nobody serves, the server failed, or time is up."""
    try:
        answer = await connection.request(
            subject, wire.encode(message), seconds=seconds, headers=telemetry.inject({})
        )
    except nats.errors.NoRespondersError as error:
        raise BusUnavailable(f"nobody serves {subject}") from error
    if answer.headers and FAILED_HEADER in answer.headers:
        raise BusUnavailable(f"{subject} failed: {answer.headers[FAILED_HEADER]}")
    try:
        return wire.decode_message(reply, answer.data)
    except msgspec.DecodeError as error:
        raise BusUnavailable(f"{subject} answered with something else") from error
