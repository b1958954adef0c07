"""Wrong keys: how many of them one address may try, and which ones were refused just now.

A wrong key costs a query on connections that all callers share. Nothing here lets anybody in: a key that is
not refused here is looked up at each request, so that a rotated one fails at once. All of it is bounded.
"""

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

REMEMBERED_SECONDS = 1.0
"""A key that is enabled again may be refused for as long."""

WRONG_AT_ONCE = 60
SECONDS_EACH = 1.0
MOST_WAIT_SECONDS = 60.0
_MOST = 10_000

K = TypeVar("K")
V = TypeVar("V")


class WrongKeys:
    """Of this process alone; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused: OrderedDict[bytes, float] = OrderedDict()
        self._counted: OrderedDict[bytes, None] = OrderedDict()
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def was_refused(self, key: str) -> bool:
        """Whether this key was wrong within the last second."""
        return self._clock() < self._refused.get(_digest(key), 0.0)

    def wait(self, address: str, key: str) -> int | None:
        """The whole seconds until this address may try a key again, None for now.

        A key that has counted here is no guess and never waits: many callers may share an address.
        """
        if _digest(key) in self._counted:
            return None
        over = self._full_at.get(address, 0.0) - self._clock() - WRONG_AT_ONCE * SECONDS_EACH
        return math.ceil(over) if over > 0 else None

    def was_right(self, key: str) -> None:
        """The key counts."""
        _put(self._counted, _digest(key), None)

    def was_wrong(self, address: str, key: str) -> None:
        """The key does not count. One that did is no guess of this address."""
        digest, now = _digest(key), self._clock()
        if digest in self._counted:
            del self._counted[digest]
            return
        _put(self._refused, digest, now + REMEMBERED_SECONDS)
        # GCRA, but for guesses that were under way together: they count after the bound too.
        full_at = max(self._full_at.get(address, 0.0), now) + SECONDS_EACH
        _put(self._full_at, address, min(full_at, now + WRONG_AT_ONCE * SECONDS_EACH + MOST_WAIT_SECONDS))


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def _put(kept: OrderedDict[K, V], name: K, value: V) -> None:
    """As the newest of at most 10,000."""
    kept[name] = value
    kept.move_to_end(name)
    if len(kept) > _MOST:
        kept.popitem(last=False)
