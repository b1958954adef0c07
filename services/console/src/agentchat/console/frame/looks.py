"""What each session has looked at lately, so that the audit log has one row a look (`frame.acting`)."""

import time
from collections.abc import Callable, Iterable

from agentchat.runtime.bounded_map import BoundedMap

LOOK_SECONDS = 3600.0
"""Parts and streams that are loaded for so long after a page belong to the look at it."""

_MOST_LOOKS = 20_000


class Looks:
    """Those of this process; of the oldest ones nothing is known any more. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: BoundedMap[tuple[str, str, str], float] = BoundedMap(_MOST_LOOKS)

    def unknown(self, session_id: str, kind: str, ids: Iterable[str]) -> list[str]:
        """Those that the session has not looked at."""
        now = self._clock()
        return [each for each in ids if (self._until.get((session_id, kind, each)) or now) <= now]

    def add(self, session_id: str, kind: str, ids: Iterable[str]) -> None:
        until = self._clock() + LOOK_SECONDS
        for each in ids:
            self._until.put((session_id, kind, each), until)
