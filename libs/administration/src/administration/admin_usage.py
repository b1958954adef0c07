"""What accounts have spent in a month, and whether log, read model and Redis agree on it."""

import re
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from administration import admin_accounts, admin_plans
from administration.admin import Admin, outcomes
from administration.parameters import Month
from contracts.admin_errors import Invalid, NotFound, Unavailable
from conversations.event_store.log import Log
from conversations.projections.storage_table import NOTHING, AccountStorage, stored_by_account, stored_of
from conversations.projections.usage_table import UsageLine, lines_of
from conversations.queries import month_usage
from conversations.queries.month_usage import MonthSpent, RunTokens
from directory.plans import Plan

if TYPE_CHECKING:
    from limits import KeptMonth

MAX_DIFFERENCES = 20
_TRIES = 3  # a gateway may begin a count of its own, once: then it has the month, and does not again
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


class MonthUsage(msgspec.Struct, frozen=True, kw_only=True):
    """`tokens` of all `runs` of an account that ended in `month` ("2026-11", UTC); `limit` is the plan's.

    `lines` are by day, agent and model. What is stored is what the account has in the log now, whatever the
    month: `stored_bytes` of JSON in so many events and conversations; `storage_limit` is the plan's.
    """

    account_id: str
    month: str
    tokens: int
    limit: int | None
    runs: int
    failed: int
    cancelled: int
    lines: tuple[UsageLine, ...]
    conversations: int = 0
    stored_events: int = 0
    stored_bytes: int = 0
    storage_limit: int | None = None


class TokenDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose tokens the log and the read model do not have alike; None where one has no such run."""

    trace_id: str
    logged: int | None
    projected: int | None


class VerifiedUsage(msgspec.Struct, frozen=True, kw_only=True):
    """A month's tokens, counted three times: from the log, in the read model, and in Redis.

    `cached` is None where Redis does not know them: it keeps the current month alone, of accounts that have
    asked since it started. The first 20 `differences` are of the read model. `repaired`: Redis was corrected.
    A run that ends meanwhile may be in one of the numbers and not in another.
    """

    account_id: str
    month: str
    runs: int
    logged: int
    projected: int
    cached: int | None
    differences: tuple[TokenDifference, ...]
    repaired: bool

    @property
    def ok(self) -> bool:
        """Whether all who know agree."""
        return not self.differences and self.cached in (None, self.logged)


async def of_month(admin: Admin, account_id: str, month: Month | None = None) -> MonthUsage:
    """What an account has spent in a month, by day, agent and model.

    One account's month; None is the current one. Raises NotFound, Invalid, Unavailable.
    """
    account = await admin_accounts.get(admin, account_id)
    with outcomes():
        month = _checked(month) or await month_usage.this_month(admin.pool)
        lines = await lines_of(admin.pool, month, account.id)
        stored = await stored_of(admin.pool, account.id)
    return _added_up(account.id, month, lines, stored, await _plan(admin, account.id), listed=True)


async def all_accounts(admin: Admin, month: Month | None = None) -> tuple[MonthUsage, ...]:
    """What each account has spent in a month and has stored, the one with the most tokens first.

    Every account that has spent or stored something, without `lines`.

    Accounts that were deleted since are among them. Raises Invalid, Unavailable.
    """
    with outcomes():
        month = _checked(month) or await month_usage.this_month(admin.pool)
        lines = await lines_of(admin.pool, month)
        stored = await stored_by_account(admin.pool)
    spent = {account_id: list(own) for account_id, own in groupby(lines, key=lambda line: line.account_id)}
    plans = await admin_plans.by_account(admin)
    found = [
        _added_up(each, month, spent.get(each, []), stored.get(each, NOTHING), plans.get(each), listed=False)
        for each in spent.keys() | stored.keys()
    ]
    return tuple(sorted(found, key=lambda each: (-each.tokens, each.account_id)))


async def verify(
    admin: Admin,
    account_id: str,
    month: str | None = None,
    *,
    repair: bool = False,
    on_progress: month_usage.Progress | None = None,
) -> VerifiedUsage:
    """Count a month from the whole log, and compare; reads all of the log, however long that takes.

    `repair` corrects Redis: only the current month is kept there. Raises NotFound, Invalid, Unavailable.
    """
    account = await admin_accounts.get(admin, account_id)
    with outcomes():
        now = await month_usage.this_month(admin.pool)
        month = _checked(month) or now
        if repair and month != now:
            raise Invalid("month", f"only the current one, {now}, is kept in Redis")
        logged = await _recount(admin, account.id, month, repair, on_progress)
        cached = await _cached(admin, account.id, month)
        projected = await month_usage.projected(admin.pool, account.id, month)
    differing = [
        TokenDifference(
            trace_id=trace_id, logged=logged.runs.get(trace_id), projected=projected.runs.get(trace_id)
        )
        for trace_id in sorted(logged.runs.keys() | projected.runs.keys())
        if logged.runs.get(trace_id) != projected.runs.get(trace_id)
    ]
    return VerifiedUsage(
        account_id=account.id,
        month=month,
        runs=len(logged.runs),
        logged=logged.tokens,
        projected=projected.tokens,
        cached=cached.tokens if cached is not None and cached.known else None,
        differences=tuple(differing[:MAX_DIFFERENCES]),
        repaired=repair,
    )


async def _recount(
    admin: Admin, account_id: str, month: str, repair: bool, on_progress: month_usage.Progress | None
) -> RunTokens:
    """The month from the log; if Redis is to be corrected, while it notes what is settled meanwhile."""
    found: list[RunTokens] = []

    async def count() -> MonthSpent:
        counted_to = await month_usage.settled_time(admin.pool)
        log = Log(admin.pool)
        found.append(await month_usage.recount(log, account_id, month, on_progress=on_progress))
        return found[-1].counted_to(counted_to)

    if not repair:
        await count()
        return found[-1]
    if admin.limiter is None:
        raise Unavailable("this needs Redis, and none was given")
    from limits import RedisUnavailable  # see Admin.limiter

    try:
        for _ in range(_TRIES):
            if await admin.limiter.recount_month(account_id, count):
                return found[-1]
    except RedisUnavailable as error:
        raise Unavailable(f"Redis does not answer: {error}") from error
    raise Unavailable("others counted this month meanwhile")


async def _cached(admin: Admin, account_id: str, month: str) -> "KeptMonth | None":
    """What Redis has of that month; None where it has another one, or does not answer."""
    if admin.limiter is None:
        return None
    from limits import RedisUnavailable  # see Admin.limiter

    try:
        kept = await admin.limiter.kept_month(account_id)
    except RedisUnavailable:
        return None
    return kept if kept is not None and kept.month == month else None


async def _plan(admin: Admin, account_id: str) -> Plan | None:
    try:
        return await admin_plans.get(admin, (await admin_accounts.get(admin, account_id)).plan)
    except NotFound:
        return None


def _added_up(
    account_id: str,
    month: str,
    lines: list[UsageLine],
    stored: AccountStorage,
    plan: Plan | None,
    *,
    listed: bool,
) -> MonthUsage:
    return MonthUsage(
        account_id=account_id,
        month=month,
        tokens=sum(line.total for line in lines),
        limit=None if plan is None else plan.tokens_per_month,
        runs=sum(line.runs for line in lines),
        failed=sum(line.failed for line in lines),
        cancelled=sum(line.cancelled for line in lines),
        lines=tuple(lines) if listed else (),
        conversations=stored.conversations,
        stored_events=stored.events,
        stored_bytes=stored.bytes,
        storage_limit=None if plan is None else plan.storage_bytes,
    )


def _checked(month: str | None) -> str | None:
    if month is not None and not _MONTH.fullmatch(month):
        raise Invalid("month", "is to be as 2026-11")
    return month
