"""Wrong keys: how many of them one address may try, and which ones were refused just now.

A wrong key costs a query on connections that all callers share. Nothing here lets anybody in: a key that is
not refused here is looked up at each request, so that a rotated one fails at once. All of it is bounded.
"""

import hashlib
import math
import time
from collections.abc import Callable

from runtime.bounded import BoundedMap

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
        self._full_at: BoundedMap[str, float] = BoundedMap(_MOST)

    def was_refused(self, key: str) -> bool:
        """Whether this key was wrong within the last second."""
        return self._clock() < (self._refused.get(_digest(key)) or 0.0)

    def wait(self, address: str) -> int | None:
        """Return the full seconds until this address may try a wrong key again, None for now."""
        over = (self._full_at.get(address) or 0.0) - self._clock() - WRONG_AT_ONCE * SECONDS_EACH
        return math.ceil(over) if over > 0 else None

    def was_wrong(self, address: str, key: str) -> None:
        """Note a key that does not count, as a guess of this address."""
        now = self._clock()
        self._refused.put(_digest(key), now + REMEMBERED_SECONDS)
        # GCRA, but for guesses that were under way together: they count after the bound too.
        full_at = max(self._full_at.get(address) or 0.0, now) + SECONDS_EACH
        self._full_at.put(address, min(full_at, now + WRONG_AT_ONCE * SECONDS_EACH + MOST_WAIT_SECONDS))


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
