"""Counting an account's month again where Redis does not know it: next to the requests, which do not wait.

Until it is counted, requests are admitted (what Redis has forgotten stops nobody), and a metric says so.
"""

import asyncio

from conversations.queries import month_usage
from limits import Limiter, RedisUnavailable
from runtime import logs, metrics
from runtime.postgres import DatabaseUnavailable, Pool

_AT_ONCE = 2
_OVERTAKEN_SECONDS = 1.0
_AWAY_SECONDS = 5.0


class MonthCounts:
    """Counts one account at a time only once, and few of them side by side. Close with `aclose`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._counting: dict[str, asyncio.Task[None]] = {}
        self._wanted: set[str] = set()
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._log = logs.get_logger("gateway.months")

    def request(self, limiter: Limiter, account_id: str, known: bool) -> None:
        """An admission found the month to be counted."""
        metrics.UNCOUNTED_MONTHS.labels(known=known).inc()
        self._wanted.add(account_id)
        if account_id not in self._counting:
            task = asyncio.create_task(self._count(limiter, account_id))
            self._counting[account_id] = task
            task.add_done_callback(lambda _: self._counting.pop(account_id, None))

    async def aclose(self) -> None:
        tasks = list(self._counting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _count(self, limiter: Limiter, account_id: str) -> None:
        """While it is wanted and comes to nothing, with pauses in which another gateway's may succeed."""
        while account_id in self._wanted:
            self._wanted.discard(account_id)
            try:
                async with self._free:
                    if await limiter.recount_month(
                        account_id, lambda: month_usage.month_of(self._pool, account_id)
                    ):
                        self._log.info("month_counted", account_id=account_id)
                        return
                await asyncio.sleep(_OVERTAKEN_SECONDS)
            except (RedisUnavailable, DatabaseUnavailable) as error:
                self._log.warning("month_not_counted", account_id=account_id, reason=str(error))
                await asyncio.sleep(_AWAY_SECONDS)
