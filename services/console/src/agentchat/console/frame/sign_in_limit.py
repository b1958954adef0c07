"""How many wrong tokens one address may try."""

import time
from collections.abc import Callable

from agentchat.runtime.bounded_map import BoundedMap

AT_ONCE, SECONDS_EACH = 10, 6.0
_MOST_ADDRESSES = 10_000


class SignInLimit:
    """Ten wrong tokens at once from an address, then one each six seconds. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._full_at: BoundedMap[str, float] = BoundedMap(_MOST_ADDRESSES)

    def wait(self, address: str) -> int:
        """Full seconds until this address may try again; 0 for now."""
        over = (self._full_at.get(address) or 0.0) - self._clock() - (AT_ONCE - 1) * SECONDS_EACH
        return int(over) + 1 if over > 0 else 0

    def was_wrong(self, address: str) -> None:
        now = self._clock()
        self._full_at.put(address, max(self._full_at.get(address) or 0.0, now) + SECONDS_EACH)
