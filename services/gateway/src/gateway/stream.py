"""A run as a stream of server-sent events: writing, pings, slow and vanished readers.

The run's subscription belongs to the caller, outside of anything that a disconnect ends
(docs/reliability.md HTTP).
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from contracts import sse
from contracts.timings import PING_SECONDS
from gateway.exchange import SEND_SECONDS, Exchange
from runtime import failpoints


class Followed(Protocol):
    """What is read: `wait` for more of it. `gone` is set once nobody reads any more."""

    gone: bool
    on_tick: Callable[[float], None] | None

    @property
    def ended(self) -> bool:
        """Whether there is no more to take."""

    async def wait(self) -> None:
        """Return when there is something to take, or `gone` was set, or `nudge` was called."""

    def nudge(self) -> None:
        """Wake the reader."""


class EventStream:
    """Writes one stream. What `take` gives at a time goes out in one write."""

    def __init__(self, exchange: Exchange, run: Followed, take: Callable[[], bytes]) -> None:
        self._exchange = exchange
        self._run = run
        self._take = take
        self._time = asyncio.get_running_loop().time
        self._silent_since = self._time()
        self._sending_since: float | None = None
        self._ping = False

    async def serve(self) -> None:
        """Send the whole answer; returns after the final event, or when the client has gone."""
        await self._exchange.start(200, [*sse.HEADERS])
        self._run.on_tick = self._tick
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

    async def _send(self, data: bytes, *, more: bool) -> None:
        self._sending_since = self._time()
        await self._exchange.body(data, more=more)
        self._sending_since = None
        self._silent_since = self._time()
        self._ping = False

    def _tick(self, now: float) -> None:
        if self._sending_since is None:
            if now - self._silent_since >= PING_SECONDS:
                self._ping = True
                self._run.nudge()
        elif now - self._sending_since >= SEND_SECONDS:
            self._exchange.abort()
