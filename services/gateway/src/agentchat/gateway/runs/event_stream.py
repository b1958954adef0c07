"""Stream a run as server-sent events: pings, slow readers, and clients that leave."""

from collections.abc import Callable
from typing import Any

from litestar import Response
from litestar.openapi.datastructures import ResponseSpec
from litestar.types import Receive, Scope, Send

from agentchat.contracts import sse_encoder
from agentchat.contracts.timings import PING_SECONDS
from agentchat.gateway.runs.run_follower import RunFollower
from agentchat.runtime import failpoints

EVENTS = {
    200: ResponseSpec(str, description="The events.", media_type="text/event-stream", generate_examples=False)
}
"""The answer of a handler that streams, for the description of the API."""

STREAM_HEADERS = {name.decode(): value.decode() for name, value in sse_encoder.HEADERS}


class EventStream(Response[Any]):
    """The run's events as an answer. What one call of `take` returns goes out in one piece.

    Not Litestar's `Stream`: it takes a task group of two tasks for each, 8 to 10 % of the gateway's part of a
    chat. The caller holds the run until the answer is out; the run itself continues if the client leaves. A
    slow reader gets larger pieces: what comes meanwhile is joined. One who acknowledges nothing for 15 s is
    dropped by the kernel (`runtime.listening_socket`).
    """

    def __init__(self, run: RunFollower, take: Callable[[], bytes]) -> None:
        super().__init__(None)
        self._run = run
        self._take = take
        self._ping_at: float | None = (
            None  # by the ticks' clock; None: something was sent since the last tick
        )
        self._pings = False

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """Return the ASGI application that answers, as Litestar asks for it."""
        return self._answer

    async def _answer(self, _: Scope, receive: Receive, send: Send) -> None:
        """Return after the final event, or when the client has gone."""
        run = self._run
        await send({"type": "http.response.start", "status": 200, "headers": sse_encoder.HEADERS})
        run.on_tick = self._tick
        watching = run.watch_client(receive)
        try:
            while not run.gone:
                data = self._take()
                if run.ended:
                    failpoints.reach("gateway-before-last-event")
                    await send({"type": "http.response.body", "body": data, "more_body": False})
                    return
                if data or self._pings:
                    self._ping_at, self._pings = None, False
                    data = data or sse_encoder.PING
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                await run.wait()
        finally:
            watching.cancel()

    def _tick(self, now: float) -> None:
        """Send a ping after a silence."""
        if self._ping_at is None:
            self._ping_at = now + PING_SECONDS
        elif now >= self._ping_at:
            self._pings = True
            self._run.wake()
