"""The plan's limits on requests, and the headers that report them.

Headers: IETF draft-ietf-httpapi-ratelimit-headers-10 (RateLimit-Policy, RateLimit), and Retry-After. One
policy for each number that the plan has: "minute", "runs" (at once), "month" (tokens), "storage" (bytes).
"""

import contextlib
from collections.abc import AsyncIterator

from litestar.handlers.base import BaseRouteHandler
from msgspec.structs import replace

from contracts.timings import ADMIT_LEASE_SECONDS
from directory.caller import Caller
from directory.plans import Plan
from gateway.access.storage import StorageBounds, refuse_full
from gateway.gateway_services import services_of
from gateway.http.exchange import Connection, Exchange
from gateway.http.problem_responses import Refusal
from gateway.openapi.described import described
from limits import Admission, Limiter, RefusalCode
from runtime import metrics

RATE_LIMIT_HEADERS = {
    "RateLimit-Policy": {
        "description": "The numbers of the plan (IETF draft-ietf-httpapi-ratelimit-headers), if any.",
        "schema": {"type": "string"},
        "example": '"minute";q=600;w=60, "runs";q=20;qu="concurrent-requests"',
    },
    "RateLimit": {
        "description": "What is left of them, and in how many seconds there is more.",
        "schema": {"type": "string"},
        "example": '"minute";r=599;t=1, "runs";r=19',
    },
}

_RESERVED = "The runs under way may use up what is left of the month's tokens: wait until one has ended."


class Slot:
    """A place among the account's concurrent runs. What is `handed_over` is the orchestrator's to free."""

    def __init__(self, limiter: Limiter, caller: Caller, trace_id: str | None) -> None:
        self.handed_over = False
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
            await _check(self._limiter, account_id, await self._limiter.admit(account_id, plan, trace_id))
            self._trace_id = trace_id

    async def take_write(self) -> None:
        """Take a token of the account's writes: the request forks a conversation. Raises Refusal: 429."""
        await _write(self._limiter, self._caller)

    async def give_back(self) -> None:
        if self._trace_id is not None:
            await self._limiter.release(self._caller.account_id, self._trace_id)
            self._trace_id = None


@contextlib.asynccontextmanager
async def admission(
    exchange: Exchange, limiter: Limiter, storage: StorageBounds, caller: Caller, *, repeats: bool = False
) -> AsyncIterator[Slot]:
    """Take a token of the rate and a slot, which is freed after the block unless it was handed over.

    One that `repeats` an earlier request takes the token alone. Raises Refusal: 429 with Retry-After, 403
    where the account may store no more. A slot that nobody frees ends with its lease, within a minute.
    """
    plan, lease = caller.plan, 0 if repeats else ADMIT_LEASE_SECONDS
    left = await storage.left(caller)
    admission = await limiter.admit(caller.account_id, plan, exchange.trace_id, slot_ttl_s=lease)
    exchange.headers += _headers(plan, admission, left)
    await _check(limiter, caller.account_id, admission)
    slot = Slot(limiter, caller, None if repeats else exchange.trace_id)
    try:
        if not repeats:
            refuse_full(caller, left)
        yield slot
    finally:
        if not slot.handed_over:
            await slot.give_back()


@described("rate_limited")
async def within_read_rate(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard, after that of the key: a token of the account's reads is taken. Raises Refusal: 429."""
    limiter, caller = services_of(connection).limiter, connection.auth
    wait = await limiter.admit_read(caller.account_id, caller.plan)
    if wait is not None:
        raise await _refused(limiter, caller.account_id, "rate_limited", wait)


@described("rate_limited", "storage_full")
async def within_write_bounds(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard, after that of the key: a token of the account's writes is taken, and there is room for one.

    Raises Refusal: 429, 403.
    """
    services = services_of(connection)
    await _write(services.limiter, connection.auth)
    await services.storage.check(connection.auth)


async def _write(limiter: Limiter, caller: Caller) -> None:
    wait = await limiter.admit_write(caller.account_id, caller.plan)
    if wait is not None:
        raise await _refused(limiter, caller.account_id, "rate_limited", wait)


async def _check(limiter: Limiter, account_id: str, admission: Admission) -> None:
    if not admission.allowed:
        code = admission.code or "rate_limited"
        detail = _RESERVED if code == "quota_exceeded" and admission.tokens_remaining != 0 else None
        raise await _refused(limiter, account_id, code, admission.retry_after_s, detail)


async def _refused(
    limiter: Limiter, account_id: str, code: RefusalCode, retry_after: int | None, detail: str | None = None
) -> Refusal:
    """Counted, and with a delay for clients that retry without waiting."""
    metrics.REFUSED_REQUESTS.labels(code=code).inc()
    await limiter.cool_down(account_id)
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
