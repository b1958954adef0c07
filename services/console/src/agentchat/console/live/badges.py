"""Count the pending approvals for the navigation, once in two seconds for all browsers."""

import asyncio
import time

from agentchat.conversations.queries.find_approvals import count_waiting_runs
from agentchat.runtime.bounded_map import BoundedMap
from agentchat.runtime.postgres import DatabaseUnavailable, Pool

AccountIds = tuple[str, ...] | None
_SECONDS = 2.0
_MOST_LIMITS = 100


class Badges:
    """The counts in the navigation."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._look = asyncio.Lock()
        self._counts: BoundedMap[AccountIds, tuple[float, int | None]] = BoundedMap(_MOST_LIMITS)

    async def count_approvals(self, account_ids: AccountIds = None) -> int | None:
        """Return the number of runs that wait for a person; None if Postgres does not answer.

        With `account_ids` those of these accounts.
        """
        async with self._look:
            known = self._counts.get(account_ids)
            if known is not None and time.monotonic() - known[0] < _SECONDS:
                return known[1]
            try:
                count = await count_waiting_runs(self._pool, account_ids)
            except DatabaseUnavailable:
                count = None
            self._counts.put(account_ids, (time.monotonic(), count))
            return count
