"""Count the pending approvals for the navigation, once in two seconds for all browsers."""

import asyncio
import time

from agentchat.conversations.queries.find_approvals import count_waiting_runs
from agentchat.runtime.postgres import DatabaseUnavailable, Pool

_SECONDS = 2.0


class Badges:
    """The counts in the navigation."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._look = asyncio.Lock()
        self._looked_at = -_SECONDS
        self._approvals: int | None = None

    async def count_approvals(self) -> int | None:
        """Return the number of runs that wait for a person; None if Postgres does not answer."""
        async with self._look:
            if time.monotonic() - self._looked_at >= _SECONDS:
                try:
                    self._approvals = await count_waiting_runs(self._pool)
                except DatabaseUnavailable:
                    self._approvals = None
                self._looked_at = time.monotonic()
            return self._approvals
