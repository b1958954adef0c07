"""Keys from an address that tries many wrong ones: looked up together, in one query at a time.

The address is often that of a proxy, of customers whose keys this process has not seen yet. They
get in as ever, and a flood of wrong keys costs some twenty queries a second, however many they are.
"""

from collections.abc import Sequence

from directory.caller import enabled_keys
from directory.keys import hash_key
from runtime.batching import Batcher
from runtime.postgres import Pool

PAUSE_SECONDS = 0.05
MOST_WAITING = 2_000
"""More at once are not looked up: over 40,000 a second the rest of the process is busy with them anyway."""


class KeyChecks:
    """Of this process alone. Close with `aclose`, before the pool."""

    def __init__(self, pool: Pool, *, most_waiting: int = MOST_WAITING) -> None:
        self._pool = pool
        self._most_waiting = most_waiting
        self._batcher: Batcher[bytes, bool] = Batcher(self._look_up, most=most_waiting, pause=PAUSE_SECONDS)

    async def counts(self, key: str) -> bool:
        """Whether the key is one that counts. False too where too many are asked for at once.

        Raises DatabaseUnavailable.
        """
        if len(self._batcher) >= self._most_waiting:
            return False
        return await self._batcher.call(hash_key(key))

    async def aclose(self) -> None:
        """Look nothing up any more."""
        await self._batcher.aclose()

    async def _look_up(self, key_hashes: Sequence[bytes], _: float) -> Sequence[bool]:
        found = await enabled_keys(self._pool, [*key_hashes])
        return [key_hash in found for key_hash in key_hashes]
