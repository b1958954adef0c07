"""The limiter of a process: Redis while it answers, the local limiter while it does not."""

import asyncio
import math
import secrets
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from contracts.timings import ADMIT_LEASE_SECONDS, HOLD_LEASE_SECONDS
from limits import lua_scripts, quota
from limits.local_limiter import Bucket, LocalLimiter
from limits.penalty import Penalties
from limits.redis_client import RedisClient, RedisUnavailable

_KEPT_RELEASES = 10_000
_CODES: tuple[quota.RefusalCode | None, ...] = (
    *(None, "rate_limited", "rate_limited"),
    *("quota_exceeded", "quota_exceeded"),
)


class Limiter:
    """Admits requests and keeps account of their runs.

    Redis has `timeout` seconds a call. After a failure it is not asked until a probe in the background, once
    a second, finds it well; meanwhile `on_fallback(reason)` is called for every decision made without it,
    the reason being timeout, error or open (not asked). `on_month(account_id, known)` is called for an
    admission whose month has to be counted: it is not known, or was counted too long ago. `instance` names
    this process in Redis's list of clients. Close with `aclose`.
    """

    def __init__(
        self,
        redis_url: str,
        *,
        timeout: float = 0.2,
        instance: str,
        on_fallback: Callable[[str], None] | None = None,
        on_month: Callable[[str, bool], None] | None = None,
    ) -> None:
        self._redis = RedisClient(
            redis_url, timeout=timeout, name=f"limits-{instance}", on_return=self._tell_unreleased
        )
        self._on_fallback = on_fallback
        self._on_month = on_month
        self._local = LocalLimiter()
        self._penalties = Penalties()
        self._unreleased: dict[tuple[str, str], tuple[int, str | None]] = {}

    async def admit(
        self, account_id: str, plan: quota.PlanLimits, trace_id: str, *, slot_ttl_s: int = ADMIT_LEASE_SECONDS
    ) -> quota.Admission:
        """Decide on a request and, if it is allowed, take its token and its slot, in one step.

        The slot is a lease of `slot_ttl_s`, which the run renews by `hold`. Asking again for the same
        trace_id while it is held takes nothing more. With a lease of 0 only the rate is asked, and no slot is
        taken. A slot keeps back some of the month's tokens, of which the next request then finds so many
        fewer: that is "quota_exceeded" with a short wait, and `tokens_remaining` above 0. Never raises for
        Redis; takes at most about `timeout`.
        """
        rate = plan.requests_per_minute
        arguments = [
            trace_id,
            quota.interval_us(rate) if rate is not None else 0,
            rate or 0,
            -1 if plan.concurrent_runs is None else plan.concurrent_runs,
            -1 if plan.tokens_per_month is None else plan.tokens_per_month,
            slot_ttl_s * 1000,
        ]
        keys = [_key(account_id, "rate"), _key(account_id, "slots"), _key(account_id, "month")]
        try:
            decided = await self._redis.run(lua_scripts.ADMIT, keys, arguments)
        except RedisUnavailable as away:
            if self._on_fallback is not None:
                self._on_fallback(str(away))
            return self._local.admit(account_id, plan, trace_id, lease_s=slot_ttl_s)
        code, retry_us, remaining, reset_us, known, runs, tokens, rest_s = decided
        if known != _KNOWN and plan.tokens_per_month is not None and self._on_month is not None:
            self._on_month(account_id, bool(known))
        return quota.admission(
            plan,
            code=_CODES[code],
            retry_us=retry_us,
            remaining=remaining,
            reset_us=reset_us,
            runs=runs,
            tokens=tokens if known else None,
            month_rest_s=rest_s,
            month_known=bool(known),
        )

    async def admit_read(self, account_id: str, plan: quota.PlanLimits) -> int | None:
        """Take a token for a request next to the chat endpoints: None, or the seconds to wait, from 1.

        Never raises for Redis; takes at most about `timeout`.
        """
        return await self._admit_bucket(account_id, "reads", quota.reads_of(plan))

    async def admit_write(self, account_id: str, plan: quota.PlanLimits) -> int | None:
        """Take a token for a write to a conversation without a run: as `admit_read`."""
        return await self._admit_bucket(account_id, "writes", quota.writes_of(plan))

    async def _admit_bucket(self, account_id: str, bucket: Bucket, rate: quota.Rate | None) -> int | None:
        if rate is None:
            return None
        try:
            wait_us = await self._redis.run(
                lua_scripts.READ, [_key(account_id, bucket)], [quota.interval_us(rate.per_minute), rate.burst]
            )
        except RedisUnavailable as away:
            if self._on_fallback is not None:
                self._on_fallback(str(away))
            wait_us = self._local.admit_bucket(account_id, bucket, rate)
        return max(1, math.ceil(wait_us / 1e6)) if wait_us > 0 else None

    async def cool_down(self, who: str) -> None:
        """To be awaited before a refusal is told: at once, but for an account, or an address, that does not
        stop to ask.
        """
        await self._penalties.wait(who)

    async def hold(self, runs: Iterable[tuple[str, str]], *, ttl_s: int = HOLD_LEASE_SECONDS) -> bool:
        """Renew the slots of running `(account_id, trace_id)` pairs, to last `ttl_s` from now at least.

        To be called every few seconds by the process that runs them. A slot that Redis has lost is taken
        again; one that was settled is not. False where Redis could not be told.
        """
        by_account: dict[str, list[str]] = {}
        for account_id, trace_id in runs:
            by_account.setdefault(account_id, []).append(trace_id)
        calls = [
            self._redis.run(
                lua_scripts.HOLD,
                [_key(account_id, "slots"), *(_settled(account_id, trace) for trace in traces)],
                [ttl_s * 1000, *traces],
            )
            for account_id, traces in by_account.items()
        ]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        return not any(isinstance(outcome, RedisUnavailable) for outcome in outcomes)

    async def release(self, account_id: str, trace_id: str) -> None:
        """Free a run's slot: it has not begun, and will not. What Redis could not be told is told later."""
        await self._end(account_id, trace_id, 0, None)

    async def settle(self, account_id: str, trace_id: str, tokens: int, ended_at: str) -> None:
        """A run has ended in the log: free its slot and add its tokens to the month, once for a trace_id.

        `ended_at` is the time of its last event, ISO 8601: it says which month the tokens belong to. What
        Redis could not be told is kept and told when it is back.
        """
        await self._end(account_id, trace_id, tokens, ended_at)

    def ended(self, account_id: str, trace_id: str) -> None:
        """This process saw a run end that another one releases: free the slot it may hold here."""
        self._local.end(account_id, trace_id)

    async def recount_month(
        self, account_id: str, count: Callable[[], Awaitable[quota.CountedMonth]]
    ) -> bool:
        """Set the current month's tokens to what `count` finds in the log, next to whatever is settled now.

        No settlement is lost or counted twice, whenever it comes: `count` is awaited after Redis has begun to
        note them. False where it came to nothing, since another count has begun, or another month. Raises
        RedisUnavailable, and what `count` raises.
        """
        name = secrets.token_hex(8)
        month, unbooked = _key(account_id, "month"), _key(account_id, "unbooked")
        await self._redis.run(lua_scripts.BEGIN_COUNT, [month, unbooked], [name])
        counted = await count()
        recent = list(counted.recent)
        numbers = [quota.number_of(counted.month), counted.tokens, quota.microseconds(counted.counted_to)]
        keys = [month, unbooked, *(_settled(account_id, trace) for trace in recent)]
        return bool(await self._redis.run(lua_scripts.SET_MONTH, keys, [name, *numbers, *recent]))

    async def kept_month(self, account_id: str) -> quota.KeptMonth:
        """What Redis has of the account's current month. Raises RedisUnavailable."""
        key = _key(account_id, "month")
        number, tokens, known = await self._redis.run(lua_scripts.READ_MONTH, [key], [])
        return quota.KeptMonth(month=quota.name_of(number), tokens=tokens, known=bool(known))

    async def ping(self) -> None:
        """A health check. Raises redis.RedisError, OSError or TimeoutError."""
        await self._redis.ping()

    async def aclose(self) -> None:
        await self._redis.aclose()

    async def _end(self, account_id: str, trace_id: str, tokens: int, ended_at: str | None) -> None:
        self._local.end(account_id, trace_id)
        try:
            await self._redis.run(lua_scripts.RELEASE, *_release_call(account_id, trace_id, tokens, ended_at))
        except RedisUnavailable:
            if len(self._unreleased) < _KEPT_RELEASES:
                self._unreleased[account_id, trace_id] = (tokens, ended_at)

    async def _tell_unreleased(self) -> None:
        """Release what ended while Redis was away, and forget each once Redis has it.

        Raises redis.RedisError, OSError or TimeoutError.
        """
        while self._unreleased:
            (account_id, trace_id), (tokens, ended_at) = next(iter(self._unreleased.items()))
            call = _release_call(account_id, trace_id, tokens, ended_at)
            await self._redis.run_on_return(lua_scripts.RELEASE, *call)
            del self._unreleased[account_id, trace_id]


_KNOWN = 1


def _release_call(
    account_id: str, trace_id: str, tokens: int, ended_at: str | None
) -> tuple[list[str], list[Any]]:
    keys = [_key(account_id, part) for part in ("slots", "month", "unbooked")]
    ended = (0, 0) if ended_at is None else (quota.microseconds(ended_at), quota.number_of(ended_at))
    return [*keys, _settled(account_id, trace_id)], [trace_id, tokens, *ended]


def _key(account_id: str, part: str) -> str:
    """The braces put an account's keys on one node of a cluster."""
    return f"limits:{{{account_id}}}:{part}"


def _settled(account_id: str, trace_id: str) -> str:
    return _key(account_id, f"settled:{trace_id}")
