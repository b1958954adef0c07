"""Wrong keys: how many of them one address may try, and which ones were refused just now.

A wrong key costs a query on connections that all callers share. Nothing here lets anybody in: a key that is
not refused here is looked up at each request, so that a rotated one fails at once. All of it is bounded.
"""

import hashlib
import math
import time
from collections.abc import Callable, Sequence

from directory.caller import enabled_keys
from directory.keys import hash_key
from runtime.batching import Batcher
from runtime.bounded import BoundedMap
from runtime.postgres import Pool

REMEMBERED_SECONDS = 1.0
"""A key that is enabled again may be refused for as long."""

WRONG_AT_ONCE = 60
SECONDS_EACH = 1.0
MOST_WAIT_SECONDS = 60.0
_MOST = 10_000


class WrongKeys:
    """Of this process alone; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused: BoundedMap[bytes, float] = BoundedMap(_MOST)
        self._counted: BoundedMap[bytes, bool] = BoundedMap(_MOST)
        self._full_at: BoundedMap[str, float] = BoundedMap(_MOST)

    def was_refused(self, key: str) -> bool:
        """Whether this key was wrong within the last second."""
        return self._clock() < (self._refused.get(_digest(key)) or 0.0)

    def wait(self, address: str, key: str) -> int | None:
        """The full seconds until this address may try a key again, None for now.

        A key that has counted here is no guess and never waits: many callers may share an address.
        """
        if self._counted.get(_digest(key)):
            return None
        over = (self._full_at.get(address) or 0.0) - self._clock() - WRONG_AT_ONCE * SECONDS_EACH
        return math.ceil(over) if over > 0 else None

    def was_right(self, key: str) -> None:
        self._counted.put(_digest(key), True)

    def was_wrong(self, address: str, key: str) -> None:
        """The key does not count. One that did is no guess of this address."""
        digest, now = _digest(key), self._clock()
        if self._counted.pop(digest):
            return
        self._refused.put(digest, now + REMEMBERED_SECONDS)
        # GCRA, but for guesses that were under way together: they count after the bound too.
        full_at = max(self._full_at.get(address) or 0.0, now) + SECONDS_EACH
        self._full_at.put(address, min(full_at, now + WRONG_AT_ONCE * SECONDS_EACH + MOST_WAIT_SECONDS))


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


PAUSE_SECONDS = 0.05
MOST_WAITING = 2_000
"""More at once are not looked up: over 40,000 a second the rest of the process is busy with them anyway."""


class KeyChecks:
    """Looks up the keys from addresses that try many wrong ones, in one query at a time.

    Such an address is often a proxy's, whose customers have keys that this process has not seen: they get in,
    and a flood of wrong keys costs some twenty queries a second. Close with `aclose`, before the pool.
    """

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
        await self._batcher.aclose()

    async def _look_up(self, key_hashes: Sequence[bytes], _: float) -> Sequence[bool]:
        found = await enabled_keys(self._pool, [*key_hashes])
        return [key_hash in found for key_hash in key_hashes]
