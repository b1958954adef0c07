"""Apply the plan's limits to a request for a run, and report them in headers.

Headers: IETF draft-ietf-httpapi-ratelimit-headers-10 (RateLimit-Policy, RateLimit), and Retry-After. One
policy for each number of the plan: "minute", "runs" (concurrent), "month" (tokens), "storage" (bytes), and
"user-minute", "user-runs", "user-month" for those of the end user.
"""

from agentchat.contracts.timings import ADMIT_LEASE_SECONDS
from agentchat.conversations.queries.account_usage import AccountFigures
from agentchat.directory.api_keys import Caller
from agentchat.gateway.access.usage_limits import (
    FigureCache,
    check_month,
    check_storage,
    check_user_month,
    count_seconds_to_next_month,
)
from agentchat.gateway.http.refusals import Refusal
from agentchat.gateway.http.request_context import RequestContext
from agentchat.limits import Admission, Limiter
from agentchat.runtime import metrics


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
        """Leave the slot to the orchestrator (`orchestrator.run`), which frees it when the run ends."""
        self._trace_id = None

    async def give_back(self) -> None:
        """Free the slot, unless it was handed over."""
        if self._trace_id is not None:
            await self._limiter.release(self._caller.account_id, self._trace_id)
            self._trace_id = None


async def take_slot(
    context: RequestContext, limiter: Limiter, figures: FigureCache, caller: Caller, *, repeats: bool = False
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
        check_month(caller, found)
        check_user_month(caller, of_user)
        check_storage(caller, found)
    return slot


async def check_read_rate(limiter: Limiter, caller: Caller) -> None:
    """Take a token of the account's rate of requests next to the chat endpoints. Raises Refusal: 429."""
    _check_wait(await limiter.admit_read(caller.account_id, caller.plan))


async def check_write_rate(limiter: Limiter, caller: Caller) -> None:
    """Take a token of the account's writes. Raises Refusal: 429."""
    _check_wait(await limiter.admit_write(caller.account_id, caller.plan))


def _check(admission: Admission) -> None:
    if not admission.allowed:
        code = "user_rate_limited" if admission.by_user else "rate_limited"
        _check_wait(admission.retry_after_s or 1, code)


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
    policies: list[str] = []
    states: list[str] = []

    def report_rate(name: str, most: int | None, remaining: int | None, reset_s: int | None) -> None:
        if most is not None:
            policies.append(f'"{name}";q={most};w=60')
            states.append(f'"{name}";r={remaining};t={reset_s}')

    def report_runs(name: str, most: int | None, remaining: int | None) -> None:
        if most is not None:
            policies.append(f'"{name}";q={most};qu="concurrent-requests"')
            states.append(f'"{name}";r={remaining}')

    def report_month(name: str, most: int | None, spent: AccountFigures | None) -> None:
        if most is not None:
            policies.append(f'"{name}";q={most};qu="tokens"')
            if spent is not None:
                left, seconds = max(0, most - spent.month_tokens), count_seconds_to_next_month(caller)
                states.append(f'"{name}";r={left};t={seconds}')

    report_rate("minute", plan.requests_per_minute, admission.remaining, admission.reset_s)
    report_runs("runs", plan.concurrent_runs, admission.runs_remaining)
    report_month("month", plan.tokens_per_month, figures)
    if plan.storage_bytes is not None:
        policies.append(f'"storage";q={plan.storage_bytes};qu="bytes"')
        if figures is not None:
            states.append(f'"storage";r={max(0, plan.storage_bytes - figures.stored_bytes)}')
    if caller.user_id is not None:
        per_minute = plan.user_requests_per_minute
        report_rate("user-minute", per_minute, admission.user_remaining, admission.user_reset_s)
        report_runs("user-runs", plan.user_concurrent_runs, admission.user_runs_remaining)
        report_month("user-month", plan.user_tokens_per_month, of_user)
    lines = ((b"ratelimit-policy", policies), (b"ratelimit", states))
    return [(name, ", ".join(items).encode()) for name, items in lines if items]
