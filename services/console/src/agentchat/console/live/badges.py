"""The counts next to pages in the navigation: looked up once in two seconds for all browsers."""

import asyncio
import time

from agentchat.conversations.queries.find_approvals import count_waiting_runs
from agentchat.runtime.postgres import DatabaseUnavailable, Pool

_SECONDS = 2.0


class Badges:
    """How many runs wait for a person; None where nobody knows."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._look = asyncio.Lock()
        self._looked_at = -_SECONDS
        self._approvals: int | None = None

    async def approvals(self) -> int | None:
        async with self._look:
            if time.monotonic() - self._looked_at >= _SECONDS:
                try:
                    self._approvals = await count_waiting_runs(self._pool)
                except DatabaseUnavailable:
                    self._approvals = None
                self._looked_at = time.monotonic()
            return self._approvals
