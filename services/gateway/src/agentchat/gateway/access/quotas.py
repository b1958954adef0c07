"""Refuse requests of accounts and users that have spent the month's tokens or budget, or may store no more.

What was spent this month, and stored, is read from read models, which lag by a moment, and cached: an account
may exceed these limits by what it does within a few seconds. Nobody is refused for figures that cannot be
read, or are of an earlier month.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from agentchat.contracts.ownership import Owner
from agentchat.conversations.queries.quota_figures import AccountFigures, load_account_usage, load_user_usage
from agentchat.directory.api_keys import Caller
from agentchat.files.file_store import sum_file_bytes
from agentchat.gateway.http.problems import Refusal
from agentchat.runtime import logs, metrics
from agentchat.runtime.bounded_map import BoundedMap
from agentchat.runtime.postgres import DatabaseUnavailable, Pool

CACHED_SECONDS = 3.0
LARGEST_SHARE = 0.05
"""The share of the time for which the database may add up one account's rows: a large account's figures are
cached longer.
"""

_FIRST_SECONDS = 1.0
"""The time for which a request waits for an account's first figures."""

_MAX_CACHED = 20_000
_AT_ONCE = 2


def check_quotas(caller: Caller, figures: AccountFigures | None, of_user: AccountFigures | None) -> None:
    """Check the month's tokens and budget, the account's and the user's, and the account's storage.

    Raises Refusal: 429, or 403 if the account may store no more.
    """
    if figures is not None:
        _check_spent(caller, caller.plan.tokens_per_month, figures.month_tokens, "quota_exceeded")
        _check_spent(caller, caller.monthly_budget, figures.month_cost, "budget_exceeded")
    if of_user is not None:
        _check_spent(caller, caller.plan.user_tokens_per_month, of_user.month_tokens, "user_quota_exceeded")
        _check_spent(caller, caller.user_monthly_budget, of_user.month_cost, "user_budget_exceeded")
    check_storage(caller, figures)


def _check_spent(caller: Caller, most: float | None, spent: float, code: str) -> None:
    if most is not None and spent >= most:
        metrics.REFUSED_REQUESTS.labels(code=code).inc()
        raise Refusal(code, retry_after=count_seconds_to_next_month(caller))


def check_storage(caller: Caller, figures: AccountFigures | None) -> None:
    """Raise Refusal, 403, if the account may store no more."""
    stored = caller.plan.storage_bytes
    if stored is not None and figures is not None and figures.stored_bytes >= stored:
        raise Refusal("storage_full", f"The plan lets the account store {stored:,} bytes.")


def count_seconds_to_next_month(caller: Caller) -> int:
    """Return the rest of the month (UTC), by Postgres' clock when the caller was looked up."""
    now = datetime.fromisoformat(caller.now)
    year, month = divmod(now.year * 12 + now.month, 12)
    return max(1, int((datetime(year, month + 1, 1, tzinfo=UTC) - now).total_seconds()))


class _Cached(msgspec.Struct, frozen=True):
    figures: AccountFigures
    until: float


class FigureCache:
    """The figures of the accounts and users that asked last. Close with `aclose`."""

    def __init__(self, pool: Pool, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._clock = clock
        self._cached: BoundedMap[Owner, _Cached] = BoundedMap(_MAX_CACHED)
        self._reading: dict[Owner, asyncio.Task[None]] = {}
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def get(self, caller: Caller) -> AccountFigures | None:
        """Return the account's figures; None if nothing bounds them, or if they are unknown."""
        bounds = (caller.plan.tokens_per_month, caller.plan.storage_bytes, caller.monthly_budget)
        if all(each is None for each in bounds):
            return None
        return await self._get(Owner(caller.account_id), caller.now[:7])

    async def get_of_user(self, caller: Caller) -> AccountFigures | None:
        """Return the figures of the caller's user; None without one, or if nothing bounds them."""
        bounds = (caller.plan.user_tokens_per_month, caller.user_monthly_budget)
        if caller.user_id is None or all(each is None for each in bounds):
            return None
        return await self._get(Owner(caller.account_id, caller.user_id), caller.now[:7])

    async def _get(self, owner: Owner, month: str) -> AccountFigures | None:
        cached = self._find(owner, month)
        if cached is None or self._clock() >= cached.until:
            reading = self.read(owner)
            if cached is None:
                await asyncio.wait([reading], timeout=_FIRST_SECONDS)
                cached = self._find(owner, month)
        return None if cached is None else cached.figures

    def _find(self, owner: Owner, month: str) -> _Cached | None:
        cached = self._cached.get(owner)
        return None if cached is None or cached.figures.month < month else cached

    def read(self, owner: Owner) -> asyncio.Task[None]:
        """Read the figures, once at a time, while requests continue with what is cached."""
        reading = self._reading.get(owner)
        if reading is None:
            reading = self._reading[owner] = asyncio.create_task(self._read(owner))
            reading.add_done_callback(lambda _: self._reading.pop(owner, None))
        return reading

    async def aclose(self) -> None:
        """Cancel the reads under way."""
        tasks = list(self._reading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, owner: Owner) -> None:
        async with self._free:
            began = self._clock()
            try:
                if owner.user_id is None:
                    figures = await load_account_usage(self._pool, owner.account_id)
                    in_files = await sum_file_bytes(self._pool, owner.account_id)
                    stored = figures.stored_bytes + in_files.get(owner.account_id, 0)
                    figures = msgspec.structs.replace(figures, stored_bytes=stored)
                else:
                    figures = await load_user_usage(self._pool, owner.account_id, owner.user_id)
            except DatabaseUnavailable as error:
                log = logs.get_logger("gateway.figures")
                log.warning("figures_not_read", account_id=owner.account_id, reason=str(error))
                return
            now = self._clock()
        until = now + max(CACHED_SECONDS, (now - began) / LARGEST_SHARE)
        self._cached.put(owner, _Cached(figures, until))
