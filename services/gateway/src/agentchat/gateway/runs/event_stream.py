"""Stream a run as server-sent events: pings, slow readers, and clients that leave."""

import asyncio
from collections.abc import Callable
from typing import Any

from litestar import Response
from litestar.openapi.datastructures import ResponseSpec
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Send

from agentchat.contracts import sse_encoder
from agentchat.contracts.timings import PING_SECONDS
from agentchat.gateway.runs.run_follower import RunFollower
from agentchat.gateway.runs.wait_for_reply import leave_with_client
from agentchat.runtime import failpoints

EVENTS = {
    200: ResponseSpec(str, description="The events.", media_type="text/event-stream", generate_examples=False)
}
"""The answer of a handler that streams, for the description of the API."""

STREAM_HEADERS = {name.decode(): value.decode() for name, value in sse_encoder.HEADERS}


class EventStream(Response[Any]):
    """The run's events as an answer. What one call of `take` returns goes out in one piece.

    Not Litestar's `Stream`: it takes a task group of two tasks for each, 8 to 10 % of the gateway's part of a
    chat. The caller holds the run until the answer is out; the run itself continues if the client leaves.
    """

    def __init__(self, run: RunFollower, take: Callable[[], bytes]) -> None:
        super().__init__(None)
        self._run = run
        self._take = take

    def to_asgi_response(self, *_: Any, **__: Any) -> ASGIResponse:
        """Return the ASGI response, as Litestar asks for it."""
        return _EventStreamResponse(self._run, self._take)


class _EventStreamResponse(ASGIResponse):
    """A slow reader gets larger pieces: what comes meanwhile is joined.

    One who acknowledges nothing for 15 s is dropped by the kernel (`runtime.listening_socket`).
    """

    def __init__(self, run: RunFollower, take: Callable[[], bytes]) -> None:
        super().__init__(headers=STREAM_HEADERS)  # with a `media_type` Litestar would add a charset
        del self.headers["content-length"]
        self._run = run
        self._take = take
        self._silent_since: float | None = asyncio.get_running_loop().time()  # None while a piece is sent
        self._ping = False

    async def send_body(self, send: Send, receive: Receive) -> None:
        """Return after the final event, or when the client has gone."""
        run = self._run
        run.on_tick = self._tick
        async with leave_with_client(receive, run):
            while not run.gone:
                data = self._take()
                if run.ended:
                    failpoints.reach("gateway-before-last-event")
                    await self._send(send, data, more=False)
                    return
                if data or self._ping:
                    await self._send(send, data or sse_encoder.PING, more=True)
                await run.wait()

    async def _send(self, send: Send, data: bytes, *, more: bool) -> None:
        self._silent_since, self._ping = None, False
        await send({"type": "http.response.body", "body": data, "more_body": more})
        self._silent_since = asyncio.get_running_loop().time()

    def _tick(self, now: float) -> None:
        if self._silent_since is not None and now - self._silent_since >= PING_SECONDS:
            self._ping = True
            self._run.wake()
