"""The limiter of a process: Redis while it answers, the local limiter while it does not."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from limits import scripts
from limits.door import Away, RedisDoor
from limits.local import LocalLimiter
from limits.quota import Admission, PlanLimits, RefusalCode, admission, interval_us

ADMIT_LEASE_S = 60
HOLD_LEASE_S = 30
_KEPT_RELEASES = 10_000
_CODES: tuple[RefusalCode | None, ...] = (None, "rate_limited", "rate_limited", "quota_exceeded")


class Limiter:
    """Admits requests and keeps account of their runs.

    Redis has `timeout` seconds a call. After a failure it is not asked until a probe in the background, once
    a second, finds it well; meanwhile `on_fallback(reason)` is called for every decision made without it,
    the reason being timeout, error or open (not asked). `instance` names this process in Redis's list of
    clients. Close with `aclose`.
    """

    def __init__(
        self,
        redis_url: str,
        *,
        timeout: float = 0.2,
        instance: str,
        on_fallback: Callable[[str], None] | None = None,
    ) -> None:
        self._redis = RedisDoor(
            redis_url, timeout=timeout, name=f"limits-{instance}", on_return=self._tell_unreleased
        )
        self._on_fallback = on_fallback
        self._local = LocalLimiter()
        self._unreleased: dict[tuple[str, str], int] = {}

    async def admit(
        self, account_id: str, plan: PlanLimits, trace_id: str, *, slot_ttl_s: int = ADMIT_LEASE_S
    ) -> Admission:
        """Decide on a request and, if it is allowed, take its token and its slot, in one step.

        The slot is a lease of `slot_ttl_s`, which the run renews by `hold`. Asking again for the same
        trace_id while it is held takes nothing more. Never raises for Redis; takes at most about `timeout`.
        """
        rate = plan.requests_per_minute
        arguments = [
            trace_id,
            interval_us(rate) if rate is not None else 0,
            rate or 0,
            -1 if plan.concurrent_runs is None else plan.concurrent_runs,
            -1 if plan.tokens_per_month is None else plan.tokens_per_month,
            slot_ttl_s * 1000,
        ]
        keys = [_key(account_id, "rate"), _key(account_id, "slots"), _key(account_id, "month")]
        try:
            code, retry_us, remaining, reset_us, known = await self._redis.run(scripts.ADMIT, keys, arguments)
        except Away as away:
            if self._on_fallback is not None:
                self._on_fallback(str(away))
            return self._local.admit(account_id, plan, trace_id, lease_s=slot_ttl_s)
        return admission(
            plan,
            code=_CODES[code],
            retry_us=retry_us,
            remaining=remaining,
            reset_us=reset_us,
            month_known=bool(known),
        )

    async def hold(self, runs: Iterable[tuple[str, str]], *, ttl_s: int = HOLD_LEASE_S) -> bool:
        """Renew the slots of running `(account_id, trace_id)` pairs, to last `ttl_s` from now at least.

        To be called every few seconds by the process that runs them. A slot that Redis has lost is taken
        again; one that was settled is not. False where Redis could not be told.
        """
        by_account: dict[str, list[str]] = {}
        for account_id, trace_id in runs:
            by_account.setdefault(account_id, []).append(trace_id)
        calls = [
            self._redis.run(
                scripts.HOLD,
                [_key(account_id, "slots"), *(_settled(account_id, trace) for trace in traces)],
                [ttl_s * 1000, *traces],
            )
            for account_id, traces in by_account.items()
        ]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        return not any(isinstance(outcome, Away) for outcome in outcomes)

    async def release(self, account_id: str, trace_id: str, tokens: int) -> None:
        """A run has ended: free its slot, and add its tokens to the month, once for a trace_id.

        With no tokens only the slot is freed. What Redis could not be told is kept and told when it is back.
        """
        self._local.end(account_id, trace_id)
        try:
            await self._redis.run(scripts.RELEASE, *_release_call(account_id, trace_id, tokens))
        except Away:
            if len(self._unreleased) < _KEPT_RELEASES:
                self._unreleased[account_id, trace_id] = tokens

    def ended(self, account_id: str, trace_id: str) -> None:
        """This process saw a run end that another one releases: free the slot it may hold here."""
        self._local.end(account_id, trace_id)

    async def set_month(self, account_id: str, tokens: int) -> None:
        """Set the current month's tokens, as counted from the log. Without Redis this does nothing."""
        try:
            await self._redis.run(scripts.SET_MONTH, [_key(account_id, "month")], [tokens])
        except Away:
            return

    async def ping(self) -> None:
        """A health check. Raises redis.RedisError, OSError or TimeoutError."""
        await self._redis.ping()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def _tell_unreleased(self) -> None:
        """Release what ended while Redis was away: each is forgotten only once it was told. Raises Away."""
        while self._unreleased:
            (account_id, trace_id), tokens = next(iter(self._unreleased.items()))
            await self._redis.run_on_return(scripts.RELEASE, *_release_call(account_id, trace_id, tokens))
            del self._unreleased[account_id, trace_id]


def _release_call(account_id: str, trace_id: str, tokens: int) -> tuple[list[str], list[Any]]:
    keys = [_key(account_id, "slots"), _key(account_id, "month"), _settled(account_id, trace_id)]
    return keys, [trace_id, tokens]


def _key(account_id: str, part: str) -> str:
    """The braces put an account's keys on one node of a cluster."""
    return f"limits:{{{account_id}}}:{part}"


def _settled(account_id: str, trace_id: str) -> str:
    return _key(account_id, f"settled:{trace_id}")
