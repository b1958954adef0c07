"""Remember what each session viewed lately: the audit log has one row for each view."""

import time
from collections.abc import Callable, Iterable

from agentchat.runtime.bounded_map import BoundedMap

VIEW_SECONDS = 3600.0
"""How long parts and streams loaded after a page belong to the view of that page."""

_MAX_VIEWS = 20_000


class RecentViews:
    """The recent views at this process; the oldest are forgotten. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: BoundedMap[tuple[str, str, str], float] = BoundedMap(_MAX_VIEWS)

    def find_new(self, session_id: str, kind: str, ids: Iterable[str]) -> list[str]:
        """Return the ids that the session has not viewed lately."""
        now = self._clock()
        return [each for each in ids if (self._until.get((session_id, kind, each)) or now) <= now]

    def add(self, session_id: str, kind: str, ids: Iterable[str]) -> None:
        """Remember that the session viewed these."""
        until = self._clock() + VIEW_SECONDS
        for each in ids:
            self._until.put((session_id, kind, each), until)
