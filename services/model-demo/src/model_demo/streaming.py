"""Sending a stream: at the pace that the controls ask for, and with the fault that strikes it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from model_demo.controls import Controls
from model_demo.faults import Fault
from model_demo.pacing import Pacer
from model_demo.wire.errors import ApiError
from model_demo.wire.protocol import Events, Wire

Write = Callable[[bytes], Awaitable[None]]
_WRITE_BYTES = 32_768


class Stream(msgspec.Struct, frozen=True):
    """One answer to be streamed. `began`: when the request came, by the pacer's clock."""

    wire: Wire
    events: Events
    controls: Controls
    fault: Fault | None
    request_id: str
    began: float


def seconds(events: Events, controls: Controls) -> float:
    """How long the stream takes from the request to its last delta."""
    gaps = max(0, len(events.deltas) - 1)
    return (controls.first_ms + gaps * controls.delay_ms) / 1000


async def send(stream: Stream, pacer: Pacer, write: Write) -> bool:
    """Send the stream. False where the connection is to be broken off instead of ended."""
    fault = stream.fault
    count = len(stream.events.deltas) if fault is None else min(fault.after, len(stream.events.deltas))
    await _send_deltas(stream, stream.events.deltas[:count], pacer, write, whole=fault is None)
    match fault:
        case None | Fault(kind="cut"):
            return True
        case Fault(kind="error"):
            failure = ApiError(stream.controls.fail or 500)
            body = stream.wire.error(failure, stream.request_id)
            await write(stream.wire.error_prefix + body + b"\n\n")
            return True
        case Fault(kind="garbage"):
            await write(stream.wire.garbage)
            return True
        case Fault(kind="hang"):
            await _ping_for_ever(stream.wire.ping, stream.controls.ping_ms / 1000, write)
    return False


async def _send_deltas(
    stream: Stream, deltas: Sequence[bytes], pacer: Pacer, write: Write, *, whole: bool
) -> None:
    """Delta k is due at began + first + k * delay, however late the ones before it were."""
    delay = stream.controls.delay_ms / 1000
    due = stream.began + stream.controls.first_ms / 1000
    waiting = stream.events.head
    for delta in deltas:
        if due > pacer.now():
            if waiting:
                await write(waiting)
                waiting = b""
            await pacer.until(due)
        waiting += delta
        due += delay
        if len(waiting) > _WRITE_BYTES:
            await write(waiting)
            waiting = b""
    await write(waiting + (stream.events.tail if whole else b""))


async def _ping_for_ever(ping: bytes, every: float, write: Write) -> None:
    """Until the client goes: whoever serves the request ends this task then."""
    while True:
        await asyncio.sleep(every)
        await write(ping)
