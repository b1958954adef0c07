"""Waiting for due times, cheaply for many streams at once.

Due times are rounded up to a grid, and one timer serves all who wait for one point of it: with a hundred
streams at 20 ms the timers would else cost as much as the writing.
"""

import asyncio
import math

_GRID_S = 0.002


class Pacer:
    """One a process. Times are those of the event loop's clock, in seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[int, list[asyncio.Future[None]]] = {}

    def now(self) -> float:
        return self._loop.time()

    async def until(self, due: float) -> None:
        """Return at `due` or up to 2 ms later; at once where it is past."""
        if due <= self._loop.time():
            return
        point = math.ceil(due / _GRID_S)
        waiting = self._waiting.get(point)
        if waiting is None:
            waiting = self._waiting[point] = []
            self._loop.call_at(point * _GRID_S, self._fire, point)
        future = self._loop.create_future()
        waiting.append(future)
        await future

    def _fire(self, point: int) -> None:
        for future in self._waiting.pop(point):
            if not future.done():
                future.set_result(None)
