"""Compare what an account has spent this month and stored with what its plan allows.

The figures come from read models, which lag by a moment, and are cached: an account may exceed its limits by
what it does within a few seconds. If they cannot be read, nobody is refused.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from agentchat.conversations.queries.account_usage import AccountUsage, load_account_usage
from agentchat.directory.caller import Caller
from agentchat.gateway.http.refusals import Refusal
from agentchat.runtime import logs, metrics
from agentchat.runtime.bounded_map import BoundedMap
from agentchat.runtime.postgres import DatabaseUnavailable, Pool

CACHED_SECONDS = 3.0
LARGEST_SHARE = 0.05
"""Of the time, for which the database may be adding up one account's rows: a large account's figures are
cached longer.
"""

_FIRST_SECONDS = 1.0
"""For which a request waits for an account's first figures."""

_MAX_ACCOUNTS = 20_000
_AT_ONCE = 2


class _Cached(msgspec.Struct, frozen=True):
    figures: AccountUsage
    until: float


class FigureCache:
    """The figures of the accounts that asked last. Close with `aclose`."""

    def __init__(self, pool: Pool, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._clock = clock
        self._accounts: BoundedMap[str, _Cached] = BoundedMap(_MAX_ACCOUNTS)
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def get(self, caller: Caller) -> AccountUsage | None:
        """Return the account's figures; None if its plan bounds neither, or if they are unknown."""
        if caller.plan.tokens_per_month is None and caller.plan.storage_bytes is None:
            return None
        cached = self._accounts.get(caller.account_id)
        if cached is None or self._clock() >= cached.until:
            reading = self.read(caller.account_id)
            if cached is None:
                await asyncio.wait([reading], timeout=_FIRST_SECONDS)
                cached = self._accounts.get(caller.account_id)
        return None if cached is None else cached.figures

    def read(self, account_id: str) -> asyncio.Task[None]:
        """Read an account's figures, once at a time, while requests continue with what is cached."""
        reading = self._reading.get(account_id)
        if reading is None:
            reading = self._reading[account_id] = asyncio.create_task(self._read(account_id))
            reading.add_done_callback(lambda _: self._reading.pop(account_id, None))
        return reading

    async def aclose(self) -> None:
        """Cancel the reads under way."""
        tasks = list(self._reading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, account_id: str) -> None:
        async with self._free:
            began = self._clock()
            try:
                figures = await load_account_usage(self._pool, account_id)
            except DatabaseUnavailable as error:
                log = logs.get_logger("gateway.figures")
                log.warning("figures_not_read", account_id=account_id, reason=str(error))
                return
            now = self._clock()
        until = now + max(CACHED_SECONDS, (now - began) / LARGEST_SHARE)
        self._accounts.put(account_id, _Cached(figures, until))


def check_month(caller: Caller, figures: AccountUsage | None) -> None:
    """Raise Refusal, 429, where the month's tokens are spent."""
    tokens = caller.plan.tokens_per_month
    if tokens is not None and figures is not None and figures.month_tokens >= tokens:
        metrics.REFUSED_REQUESTS.labels(code="quota_exceeded").inc()
        raise Refusal("quota_exceeded", retry_after=count_seconds_to_next_month(caller))


def check_storage(caller: Caller, figures: AccountUsage | None) -> None:
    """Raise Refusal, 403, where the account may store no more."""
    stored = caller.plan.storage_bytes
    if stored is not None and figures is not None and figures.stored_bytes >= stored:
        raise Refusal("storage_full", f"The plan lets the account store {stored:,} bytes.")


def count_seconds_to_next_month(caller: Caller) -> int:
    """Return the rest of the month (UTC), by Postgres' clock when the caller was looked up."""
    now = datetime.fromisoformat(caller.now)
    year, month = divmod(now.year * 12 + now.month, 12)
    return max(1, int((datetime(year, month + 1, 1, tzinfo=UTC) - now).total_seconds()))
