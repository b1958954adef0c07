"""Limit failed sign-ins by client address."""

import time
from collections.abc import Callable

from agentchat.runtime.bounded_map import BoundedMap

AT_ONCE, SECONDS_EACH = 10, 6.0
_MOST_ADDRESSES = 10_000


class SignInLimit:
    """Allows ten failed sign-ins at once, then one in six seconds, for each address.

    `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._full_at: BoundedMap[str, float] = BoundedMap(_MOST_ADDRESSES)

    def get_wait(self, address: str) -> int:
        """Return the seconds until this address may try again, rounded up; 0 if it may now."""
        over = (self._full_at.get(address) or 0.0) - self._clock() - (AT_ONCE - 1) * SECONDS_EACH
        return int(over) + 1 if over > 0 else 0

    def add_failure(self, address: str) -> None:
        """Count a failed sign-in."""
        now = self._clock()
        self._full_at.put(address, max(self._full_at.get(address) or 0.0, now) + SECONDS_EACH)
