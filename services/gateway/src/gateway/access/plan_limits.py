"""The plan's limits on requests, and the headers that report them.

Headers: IETF draft-ietf-httpapi-ratelimit-headers-10 (RateLimit-Policy, RateLimit), and Retry-After. One
policy for each number that the plan has: "minute", "runs" (at once), "month" (tokens), "storage" (bytes).
"""

from msgspec.structs import replace

from contracts.timings import ADMIT_LEASE_SECONDS
from directory.caller import Caller
from directory.plans import Plan
from gateway.access.storage import StorageBounds, refuse_full
from gateway.http.refusals import Refusal
from gateway.http.request_context import RequestContext
from limits import Admission, Limiter, RefusalCode
from runtime import metrics

_RESERVED = "The runs under way may use up what is left of the month's tokens: wait until one has ended."


class Slot:
    """A place among the account's concurrent runs. One that was handed over is the orchestrator's to free."""

    def __init__(self, limiter: Limiter, caller: Caller, trace_id: str | None) -> None:
        self._limiter = limiter
        self._caller = caller
        self._trace_id = trace_id

    async def take(self, trace_id: str) -> None:
        """Have the place for the run of this trace, whatever it was for. Raises Refusal: 429.

        The rate is not asked: the request has had its token.
        """
        if self._trace_id != trace_id:
            await self.give_back()
            plan = replace(self._caller.plan, requests_per_minute=None)
            account_id = self._caller.account_id
            _check(await self._limiter.admit(account_id, plan, trace_id))
            self._trace_id = trace_id

    async def take_write(self) -> None:
        """Take a token of the account's writes: the request forks a conversation. Raises Refusal: 429."""
        await _write(self._limiter, self._caller)

    def hand_over(self) -> None:
        self._trace_id = None

    async def give_back(self) -> None:
        if self._trace_id is not None:
            await self._limiter.release(self._caller.account_id, self._trace_id)
            self._trace_id = None


async def take_slot(
    context: RequestContext,
    limiter: Limiter,
    storage: StorageBounds,
    caller: Caller,
    *,
    repeats: bool = False,
) -> Slot:
    """Take a token of the rate and a place for a run, until the request has been answered or hands it over.

    One that `repeats` an earlier request takes the token alone. A place that nobody frees ends with its
    lease, within a minute. Raises Refusal: 429 with Retry-After, 403 where the account may store no more.
    """
    plan, lease = caller.plan, 0 if repeats else ADMIT_LEASE_SECONDS
    left = await storage.left(caller)
    admission = await limiter.admit(caller.account_id, plan, context.trace_id, slot_ttl_s=lease)
    context.headers += _headers(plan, admission, left)
    _check(admission)
    slot = Slot(limiter, caller, None if repeats else context.trace_id)
    context.held.push_async_callback(slot.give_back)
    if not repeats:
        refuse_full(caller, left)
    return slot


async def check_read_rate(limiter: Limiter, caller: Caller) -> None:
    """Take a token of the account's rate of requests next to the chat endpoints. Raises Refusal: 429."""
    wait = await limiter.admit_read(caller.account_id, caller.plan)
    if wait is not None:
        raise _refused("rate_limited", wait)


async def check_write_bounds(limiter: Limiter, storage: StorageBounds, caller: Caller) -> None:
    """Take a token of the account's writes, and check that it may store more. Raises Refusal: 429, 403."""
    await _write(limiter, caller)
    await storage.check(caller)


async def _write(limiter: Limiter, caller: Caller) -> None:
    wait = await limiter.admit_write(caller.account_id, caller.plan)
    if wait is not None:
        raise _refused("rate_limited", wait)


def _check(admission: Admission) -> None:
    if not admission.allowed:
        code = admission.code or "rate_limited"
        detail = _RESERVED if code == "quota_exceeded" and admission.tokens_remaining != 0 else None
        raise _refused(code, admission.retry_after_s, detail)


def _refused(code: RefusalCode, retry_after: int | None, detail: str | None = None) -> Refusal:
    metrics.REFUSED_REQUESTS.labels(code=code).inc()
    return Refusal(code, detail, retry_after=retry_after)


def _headers(plan: Plan, admission: Admission, storage_left: int | None) -> list[tuple[bytes, bytes]]:
    """A number that the plan does not have is left out; "month" and "storage" have no state while
    nobody knows it.
    """
    policies: list[str] = []
    states: list[str] = []
    if plan.requests_per_minute is not None:
        policies.append(f'"minute";q={plan.requests_per_minute};w=60')
        states.append(f'"minute";r={admission.remaining};t={admission.reset_s}')
    if plan.concurrent_runs is not None:
        policies.append(f'"runs";q={plan.concurrent_runs};qu="concurrent-requests"')
        states.append(f'"runs";r={admission.runs_remaining}')
    if plan.tokens_per_month is not None:
        policies.append(f'"month";q={plan.tokens_per_month};qu="tokens"')
        if admission.tokens_remaining is not None:
            states.append(f'"month";r={admission.tokens_remaining};t={admission.month_reset_s}')
    if plan.storage_bytes is not None:
        policies.append(f'"storage";q={plan.storage_bytes};qu="bytes"')
        if storage_left is not None:
            states.append(f'"storage";r={storage_left}')
    lines = ((b"ratelimit-policy", policies), (b"ratelimit", states))
    return [(name, ", ".join(items).encode()) for name, items in lines if items]
