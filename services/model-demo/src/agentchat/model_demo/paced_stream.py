"""Send a stream at the pace, and with the fault, that the controls ask for."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
from litestar.types import Receive, Scope, Send

from agentchat.model_demo.controls import Controls, Fault
from agentchat.model_demo.errors import DemoApiError
from agentchat.model_demo.planned_reply import Events, ModelWire
from agentchat.runtime.task_cancellation import wait_first

_WRITE_BYTES = 32_768


class PacedStream(msgspec.Struct, frozen=True):
    """A streamed reply, as an ASGI application: unlike Litestar's own stream it can break off.

    `began` is the time of the request, by `time.monotonic`.
    """

    wire: ModelWire
    events: Events
    controls: Controls
    fault: Fault | None
    request_id: str
    began: float

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until it ends or the client disconnects."""
        await run_while_connected(self._deliver(send), receive)

    async def _deliver(self, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (self.wire.REQUEST_ID.encode(), self.request_id.encode()),
        ]

        async def write(chunk: bytes, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": chunk, "more_body": more})

        await send({"type": "http.response.start", "status": 200, "headers": headers})
        deltas, fault = self.events.deltas, self.fault
        await self._send_deltas(deltas if fault is None else deltas[: fault.after], write)
        match fault:
            case None:
                await write(self.events.tail, more=False)
            case Fault(kind="cut"):
                await write(b"", more=False)
            case Fault(kind="garbage"):
                await write(b'data: {"type":\n\n', more=False)
            case Fault(kind="fail"):
                body = self.wire.write_error(DemoApiError(self.controls.fail or 500), self.request_id)
                await write(self.wire.ERROR_PREFIX + body + b"\n\n", more=False)
            case Fault(kind="hang"):
                while True:
                    await asyncio.sleep(self.controls.ping_ms / 1000)
                    await write(self.wire.PING)

    async def _send_deltas(self, deltas: list[bytes], write: Callable[[bytes], Awaitable[None]]) -> None:
        """Send delta k at began + first + k * delay, even if earlier ones were late."""
        waiting = self.events.head
        for index, delta in enumerate(deltas):
            wait = compute_due_time(self.controls, self.began, index) - time.monotonic()
            if wait > 0 or len(waiting) > _WRITE_BYTES:
                await write(waiting)
                waiting = b""
            if wait > 0:
                await asyncio.sleep(wait)
            waiting += delta
        if waiting:
            await write(waiting)


def compute_due_time(controls: Controls, began: float, index: int) -> float:
    """Return the time of a delta, by `time.monotonic`."""
    return began + (controls.first_ms + index * controls.delay_ms) / 1000


async def run_while_connected(work: Coroutine[Any, Any, object], receive: Receive) -> None:
    """Run `work` until it ends or the client disconnects."""

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    await wait_first(work, wait_for_disconnect())
