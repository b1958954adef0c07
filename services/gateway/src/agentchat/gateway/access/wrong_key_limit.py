"""Limit how many wrong keys one address may try. A valid key is never refused here."""

import math
import time
from collections.abc import Callable

from agentchat.runtime.bounded_map import BoundedMap

WRONG_AT_ONCE = 60
SECONDS_EACH = 1.0
MOST_WAIT_SECONDS = 60.0
_MOST = 10_000


class WrongKeys:
    """The wrong keys that this process received; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._full_at: BoundedMap[str, float] = BoundedMap(_MOST)

    def wait(self, address: str) -> int | None:
        """Return the full seconds until this address may try a wrong key again, None for now."""
        over = (self._full_at.get(address) or 0.0) - self._clock() - WRONG_AT_ONCE * SECONDS_EACH
        return math.ceil(over) if over > 0 else None

    def was_wrong(self, address: str) -> None:
        """Count a wrong key of this address."""
        now = self._clock()
        # GCRA, except for guesses that were under way together: they count after the bound too.
        full_at = max(self._full_at.get(address) or 0.0, now) + SECONDS_EACH
        self._full_at.put(address, min(full_at, now + WRONG_AT_ONCE * SECONDS_EACH + MOST_WAIT_SECONDS))
