"""A run as a stream of server-sent events: writing, pings, slow and vanished readers.

The run's subscription belongs to the caller, outside of anything that a disconnect ends (RELIABILITY 2.3).
"""

import asyncio

from gateway import sse
from gateway.exchange import Exchange
from gateway.live import LiveRun

PING_SECONDS = 15.0
SEND_SECONDS = 15.0


class EventStream:
    """Writes one stream. What is taken at a time goes out in one write."""

    def __init__(self, exchange: Exchange, run: LiveRun, encoder: sse.Encoder) -> None:
        self._exchange = exchange
        self._run = run
        self._encoder = encoder
        self._time = asyncio.get_running_loop().time
        self._silent_since = self._time()
        self._sending_since: float | None = None
        self._ping = False

    async def serve(self) -> None:
        """Send the whole answer; returns after the final event, or when the client has gone."""
        await self._exchange.start(200, [*sse.HEADERS])
        self._run.on_tick = self._tick
        while not self._run.gone:
            data = self._encoder.encode(self._run.take())
            if self._run.ended:
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
