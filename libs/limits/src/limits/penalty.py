"""Those who go on asking although they are refused wait for their refusals, so that others are served.

A refusal costs the process that gives it about a millisecond: one account, or one address, that asks in a
loop could fill a core with them. Its loop is slowed down here; whoever keeps to Retry-After never notices.
"""

import asyncio
import time
from collections.abc import Callable

from runtime.bounded import BoundedMap

WAIT_SECONDS = 0.5
FREE_REFUSALS = 20
"""So many at once are answered at once, and then PER_SECOND."""

PER_SECOND = 10.0
MAX_WAITING = 64
"""Answers of one of them that may wait: each holds a connection."""

_MOST = 10_000


class _Refused:
    """`level` refusals at time `at` that count; it falls by PER_SECOND. `waiting` answers wait now."""

    __slots__ = ("at", "level", "waiting")

    def __init__(self, at: float) -> None:
        self.at = at
        self.level = 0.0
        self.waiting = 0


class Penalties:
    """Of this process alone; remembers the 10,000 that were refused last."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused: BoundedMap[str, _Refused] = BoundedMap(_MOST)

    async def wait(self, who: str) -> None:
        """Return when they may be told that they are refused."""
        refused = self._note(who)
        if refused.level <= FREE_REFUSALS or refused.waiting >= MAX_WAITING:
            return
        refused.waiting += 1
        try:
            await asyncio.sleep(WAIT_SECONDS)
        finally:
            refused.waiting -= 1

    def _note(self, who: str) -> _Refused:
        now = self._clock()
        refused = self._refused.get(who)
        if refused is None:
            refused = _Refused(now)
            self._refused.put(who, refused)
        refused.level = max(0.0, refused.level - (now - refused.at) * PER_SECOND)
        refused.level = min(refused.level + 1.0, FREE_REFUSALS + 1.0)
        refused.at = now
        return refused
