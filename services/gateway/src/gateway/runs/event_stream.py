"""A run as a stream of server-sent events: writing, pings, slow and vanished readers.

The caller follows the run, outside of anything that a disconnect ends (docs/change/reliability.md HTTP).
"""

import asyncio
from collections.abc import Callable

from contracts import sse
from contracts.timings import PING_SECONDS
from gateway.http.exchange import SEND_SECONDS, DirectResponse, Exchange
from gateway.runs.followed_run import RunFollower
from runtime import failpoints


class EventStream(DirectResponse[None]):
    """A stream as an answer. What one call of `take` returns goes out in one write."""

    def __init__(self, run: RunFollower, take: Callable[[], bytes]) -> None:
        super().__init__(None)
        self._run = run
        self._take = take
        self._time = asyncio.get_running_loop().time
        self._silent_since = self._time()
        self._sending_since: float | None = None
        self._ping = False
        self._wrote = False  # since the last tick, past the task

    async def send_to(self, exchange: Exchange) -> None:
        """Return after the final event, or when the client has gone."""
        self._exchange = exchange
        await self._exchange.start(200, [*sse.HEADERS])
        self._run.on_tick = self._tick
        self._run.on_updates = self._write
        while not self._run.gone:
            data = self._take()
            if self._run.ended:
                failpoints.reach("gateway-before-last-event")
                await self._send(data, more=False)
                return
            if self._ping and not data:
                data = sse.PING
            if data:
                await self._send(data, more=True)
            await self._run.wait()

    def _write(self) -> bool:
        """Send what there is at once. A slow client is sent it when it is ready again.

        It may be ready while the task still has the previous piece to send: then the task sends this one too.
        """
        if self._sending_since is not None or not self._exchange.write(b""):
            return False
        if data := self._take():
            self._exchange.write(data)
            self._wrote = True
        return True

    async def _send(self, data: bytes, *, more: bool) -> None:
        self._sending_since = self._time()
        await self._exchange.body(data, more=more)
        self._sending_since = None
        self._silent_since = self._time()
        self._ping = False

    def _tick(self, now: float) -> None:
        if self._wrote:
            self._wrote, self._silent_since = False, now
        elif self._sending_since is None:
            if now - self._silent_since >= PING_SECONDS:
                self._ping = True
                self._run.nudge()
        elif now - self._sending_since >= SEND_SECONDS:
            self._exchange.abort()
