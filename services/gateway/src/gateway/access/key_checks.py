"""Keys from an address that tries many wrong ones: looked up together, in one query at a time.

The address is often that of a proxy, with customers behind it whose keys this process has not seen yet. They
get in as ever, and a flood of wrong keys costs some twenty queries a second, however many they are.
"""

import asyncio

from directory.caller import enabled_keys
from directory.keys import hash_key
from runtime.postgres import Pool

PAUSE_SECONDS = 0.05
MOST_WAITING = 2_000
"""More at once are not looked up: over 40,000 a second the rest of the process is busy with them anyway."""


class _Question:
    """Whether a key counts; None before it was looked up."""

    __slots__ = ("counts", "key_hash")

    def __init__(self, key: str) -> None:
        self.key_hash = hash_key(key)
        self.counts: bool | None = None


class KeyChecks:
    """Of this process alone."""

    def __init__(self, pool: Pool, *, most_waiting: int = MOST_WAITING) -> None:
        self._pool = pool
        self._most_waiting = most_waiting
        self._turn = asyncio.Lock()
        self._waiting: list[_Question] = []

    async def counts(self, key: str) -> bool:
        """Whether the key is one that counts. False too where too many are asked for at once.

        Raises DatabaseUnavailable.
        """
        if len(self._waiting) >= self._most_waiting:
            return False
        own = _Question(key)
        self._waiting.append(own)
        async with self._turn:
            if own.counts is None:
                await asyncio.sleep(PAUSE_SECONDS)
                await self._look_up()
        return own.counts is True

    async def _look_up(self) -> None:
        """All that wait. A query that fails does so for the first of them; the others do not count."""
        asked, self._waiting = self._waiting, []
        found: frozenset[bytes] = frozenset()
        try:
            found = await enabled_keys(self._pool, [each.key_hash for each in asked])
        finally:
            for each in asked:
                each.counts = each.key_hash in found
