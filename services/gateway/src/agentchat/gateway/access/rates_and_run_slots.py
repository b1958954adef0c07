"""Apply the plan's limits to a request for a run, and report them in headers. `limits` decides.

Headers: IETF draft-ietf-httpapi-ratelimit-headers-10 (RateLimit-Policy, RateLimit), and Retry-After. One
policy for each number of the plan: "minute", "runs" (concurrent), "month" (tokens), "storage" (bytes), and
"user-minute", "user-runs", "user-month" for those of the end user.
"""

from agentchat.contracts.timings import ADMIT_LEASE_SECONDS
from agentchat.conversations.queries.quota_figures import AccountFigures
from agentchat.directory.api_keys import Caller
from agentchat.gateway.access.quotas import FigureCache, check_quotas, count_seconds_to_next_month
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.http.request_context import RequestContext
from agentchat.limits import Admission, Counts, Limiter
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
    figures: FigureCache,
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
        check_quotas(caller, found, of_user)
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
            left = f"r={max(0, month - figures.month_tokens)};t={count_seconds_to_next_month(caller)}"
        items.append((f"{prefix}month", f'q={month};qu="tokens"', left))
    return items
