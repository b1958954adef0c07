"""Apply the plan's limits to a request for a run, and report them in headers.

Headers: IETF draft-ietf-httpapi-ratelimit-headers-10 (RateLimit-Policy, RateLimit), and Retry-After. One
policy for each number of the plan: "minute", "runs" (concurrent), "month" (tokens), "storage" (bytes), and
"user-minute", "user-runs", "user-month" for those of the end user.

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
from agentchat.contracts.timings import ADMIT_LEASE_SECONDS
from agentchat.conversations.queries.account_usage import AccountFigures, load_account_usage, load_user_usage
from agentchat.directory.api_keys import Caller
from agentchat.files.file_store import sum_file_bytes
from agentchat.gateway.http.refusals import Refusal
from agentchat.gateway.http.request_context import RequestContext
from agentchat.limits import Admission, Counts, Limiter
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

_MAX_CACHED = 20_000
_AT_ONCE = 2


class Slot:
    """A slot among the account's concurrent runs. After `hand_over` the orchestrator frees it."""

    def __init__(self, limiter: Limiter, caller: Caller, trace_id: str | None) -> None:
        self._limiter = limiter
        self._caller = caller
        self._trace_id = trace_id

    async def take(self, trace_id: str) -> None:
        """Hold the slot for the run of this trace. Raises Refusal: 429.

        The rate is not asked again: the request has taken its token.
        """
        if self._trace_id != trace_id:
            await self.give_back()
            caller = self._caller
            plan = caller.plan.drop_rates()
            _check(await self._limiter.admit(caller.account_id, plan, trace_id, user_id=caller.user_id))
            self._trace_id = trace_id

    async def take_write(self) -> None:
        """Take a token of the account's writes, for a request that forks a conversation.

        Raises Refusal: 429.
        """
        await check_write_rate(self._limiter, self._caller)

    def hand_over(self) -> None:
        """Leave the slot to the orchestrator: `orchestrator.run.run_attempt` frees it when the run ends."""
        self._trace_id = None

    async def give_back(self) -> None:
        """Free the slot, unless it was handed over."""
        if self._trace_id is not None:
            await self._limiter.release(self._caller.account_id, self._trace_id)
            self._trace_id = None


async def take_slot(
    context: RequestContext,
    limiter: Limiter,
    figures: "FigureCache",
    caller: Caller,
    *,
    repeats: bool = False,
) -> Slot:
    """Take a token of the rate and a slot for a run, held until the request is answered or hands it over.

    A request that `repeats` an earlier one takes only the token. A slot that nobody frees expires with its
    lease within a minute.

    Raises:
        Refusal: 429 with Retry-After; 403 if the account may store no more.
    """
    plan, lease = caller.plan, 0 if repeats else ADMIT_LEASE_SECONDS
    found, of_user = await figures.get(caller), await figures.get_of_user(caller)
    admission = await limiter.admit(
        caller.account_id, plan, context.trace_id, user_id=caller.user_id, slot_ttl_s=lease
    )
    slot = Slot(limiter, caller, context.trace_id if admission.allowed and not repeats else None)
    context.held.push_async_callback(slot.give_back)
    context.headers += _build_headers(caller, admission, found, of_user)
    _check(admission)
    if not repeats:
        _check_month(caller, found)
        _check_user_month(caller, of_user)
        check_storage(caller, found)
    return slot


def _check_month(caller: Caller, figures: AccountFigures | None) -> None:
    """Raise Refusal, 429, if the month's tokens or budget are spent."""
    if figures is not None:
        _check_spent(caller, caller.plan.tokens_per_month, figures.month_tokens, "quota_exceeded")
        _check_spent(caller, caller.monthly_budget, figures.month_cost, "budget_exceeded")


def _check_user_month(caller: Caller, figures: AccountFigures | None) -> None:
    """Raise Refusal, 429, if the user's tokens or budget of the month are spent."""
    if figures is not None:
        _check_spent(caller, caller.plan.user_tokens_per_month, figures.month_tokens, "user_quota_exceeded")
        _check_spent(caller, caller.user_monthly_budget, figures.month_cost, "user_budget_exceeded")


def _check_spent(caller: Caller, most: float | None, spent: float, code: str) -> None:
    if most is not None and spent >= most:
        metrics.REFUSED_REQUESTS.labels(code=code).inc()
        raise Refusal(code, retry_after=_count_seconds_to_next_month(caller))


def check_storage(caller: Caller, figures: AccountFigures | None) -> None:
    """Raise Refusal, 403, if the account may store no more."""
    stored = caller.plan.storage_bytes
    if stored is not None and figures is not None and figures.stored_bytes >= stored:
        raise Refusal("storage_full", f"The plan lets the account store {stored:,} bytes.")


async def check_read_rate(limiter: Limiter, caller: Caller) -> None:
    """Take a token of the account's rate of requests next to the chat endpoints. Raises Refusal: 429."""
    _check_wait(await limiter.admit_read(caller.account_id, caller.plan))


async def check_write_rate(limiter: Limiter, caller: Caller) -> None:
    """Take a token of the account's writes. Raises Refusal: 429."""
    _check_wait(await limiter.admit_write(caller.account_id, caller.plan))


def _check(admission: Admission) -> None:
    if not admission.allowed:
        code = "user_rate_limited" if admission.by_user else "rate_limited"
        _check_wait(admission.retry_after_s, code)


def _check_wait(seconds: int | None, code: str = "rate_limited") -> None:
    if seconds is not None:
        metrics.REFUSED_REQUESTS.labels(code=code).inc()
        raise Refusal(code, retry_after=seconds)


def _build_headers(
    caller: Caller, admission: Admission, figures: AccountFigures | None, of_user: AccountFigures | None
) -> list[tuple[bytes, bytes]]:
    """Report the plan's numbers, those of the user if the request names one.

    "month", "user-month" and "storage" have no state while nobody knows it.
    """
    plan = caller.plan
    bounds = (plan.requests_per_minute, plan.concurrent_runs, plan.tokens_per_month)
    items = _describe(caller, "", bounds, admission.account, figures)
    if plan.storage_bytes is not None:
        left = None if figures is None else f"r={max(0, plan.storage_bytes - figures.stored_bytes)}"
        items.append(("storage", f'q={plan.storage_bytes};qu="bytes"', left))
    if admission.user is not None:
        bounds = (plan.user_requests_per_minute, plan.user_concurrent_runs, plan.user_tokens_per_month)
        items += _describe(caller, "user-", bounds, admission.user, of_user)
    policies = ", ".join(f'"{name}";{policy}' for name, policy, _ in items)
    states = ", ".join(f'"{name}";{state}' for name, _, state in items if state is not None)
    lines = ((b"ratelimit-policy", policies), (b"ratelimit", states))
    return [(name, line.encode()) for name, line in lines if line]


def _describe(
    caller: Caller,
    prefix: str,
    bounds: tuple[int | None, int | None, int | None],
    counts: Counts,
    figures: AccountFigures | None,
) -> list[tuple[str, str, str | None]]:
    """Describe the rate, the runs and the month of an account or a user: name, policy and state of each."""
    rate, runs, month = bounds
    items: list[tuple[str, str, str | None]] = []
    if rate is not None:
        state = f"r={counts.remaining};t={counts.reset_s}"
        items.append((f"{prefix}minute", f"q={rate};w=60", state))
    if runs is not None:
        items.append(
            (f"{prefix}runs", f'q={runs};qu="concurrent-requests"', f"r={max(0, runs - counts.runs)}")
        )
    if month is not None:
        left = None
        if figures is not None:
            left = f"r={max(0, month - figures.month_tokens)};t={_count_seconds_to_next_month(caller)}"
        items.append((f"{prefix}month", f'q={month};qu="tokens"', left))
    return items


def _count_seconds_to_next_month(caller: Caller) -> int:
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
