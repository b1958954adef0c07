"""Admit requests and hold the slots of runs in Redis; while it is away, limit the rates locally."""

import asyncio
import contextlib
import hashlib
import math
from collections.abc import Callable, Iterable

from agentchat.contracts.timings import ADMIT_LEASE_SECONDS, HOLD_LEASE_SECONDS
from agentchat.limits import admission, decide_in_redis
from agentchat.limits.decide_locally import Bucket, LocalLimiter
from agentchat.limits.redis_client import RedisClient, RedisUnavailable


class Limiter:
    """Admits requests and holds the slots of their runs.

    A call to Redis may take `timeout` seconds. After a failure Redis is not asked until a probe, once a
    second, finds it well; until then each decision is made locally and `on_fallback(reason)` is called:
    timeout, error, or open (not asked). `instance` is the client name in Redis. Close with `aclose`.
    """

    def __init__(
        self,
        redis_url: str,
        *,
        timeout: float = 0.2,
        instance: str,
        on_fallback: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._redis = RedisClient(redis_url, timeout=timeout, name=f"limits-{instance}")
        self._on_fallback = on_fallback
        self._local = LocalLimiter()

    async def admit(
        self,
        account_id: str,
        plan: admission.PlanLimits,
        trace_id: str,
        *,
        user_id: str | None = None,
        slot_ttl_s: int = ADMIT_LEASE_SECONDS,
    ) -> admission.Admission:
        """Decide on a request and, if it is allowed, take its token and its slot in one step.

        The slot is a lease of `slot_ttl_s`, which the run renews with `hold`. Admitting the same trace_id
        again while its slot is held takes nothing more. A lease of 0 takes a token and no slot. With a
        `user_id` the plan's limits of a user count too. Never raises for Redis; takes at most about
        `timeout`.
        """
        user = None if user_id is None else _hash_user(user_id)
        parts = ("rate", "slots", f"user:{user}:rate", f"user:{user}:runs")
        keys = [_name_key(account_id, part) for part in parts]
        own = (admission.get_chat_rate(plan), plan.concurrent_runs)
        of_user = (admission.get_user_rate(plan), plan.user_concurrent_runs) if user else (None, None)
        numbers, user_numbers = _list_numbers(*own), _list_numbers(*of_user)
        arguments = [trace_id, *numbers, slot_ttl_s * 1000, *user_numbers]
        try:
            retry_us, *counts = await self._redis.run(decide_in_redis.ADMIT, keys, arguments)
        except RedisUnavailable as away:
            self._on_fallback(str(away))
            return self._local.admit(account_id, plan, user=user)
        return admission.Admission(
            retry_us=retry_us,
            account=admission.Counts(*counts[:3]),
            user=admission.Counts(*counts[4:]) if user else None,
            by_user=bool(counts[3]),
        )

    async def admit_read(self, account_id: str, plan: admission.PlanLimits) -> int | None:
        """Take a token for a request other than a chat. Return None, or the seconds to wait, from 1.

        Never raises for Redis; takes at most about `timeout`.
        """
        return await self._take(account_id, "reads", admission.get_read_rate(plan))

    async def admit_write(self, account_id: str, plan: admission.PlanLimits) -> int | None:
        """Take a token for a write to a conversation without a run, as `admit_read` does."""
        return await self._take(account_id, "writes", admission.get_write_rate(plan))

    async def _take(self, account_id: str, bucket: Bucket, rate: admission.Rate | None) -> int | None:
        if rate is None:
            return None
        try:
            wait_us = await self._redis.run(
                decide_in_redis.TAKE, [_name_key(account_id, bucket)], [rate.interval_us, rate.burst]
            )
        except RedisUnavailable as away:
            self._on_fallback(str(away))
            wait_us = self._local.take(account_id, bucket, rate)
        return max(1, math.ceil(wait_us / 1e6)) if wait_us > 0 else None

    async def hold(self, runs: Iterable[tuple[str, str]], *, ttl_s: int = HOLD_LEASE_SECONDS) -> bool:
        """Renew the slots of running `(account_id, trace_id)` pairs for `ttl_s`.

        Return False if Redis is away. The process that runs them calls this every few seconds. A slot that
        Redis has lost is taken again, unless its run has ended.
        """
        by_account: dict[str, list[str]] = {}
        for account_id, trace_id in runs:
            by_account.setdefault(account_id, []).append(trace_id)
        calls = [
            self._redis.run(
                decide_in_redis.HOLD,
                [_name_key(account_id, "slots"), *(_name_mark(account_id, trace) for trace in traces)],
                [ttl_s * 1000, *traces],
            )
            for account_id, traces in by_account.items()
        ]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        return not any(isinstance(outcome, RedisUnavailable) for outcome in outcomes)

    async def release(self, account_id: str, trace_id: str, *, ended: bool = False) -> None:
        """Free a run's slot: the run was not started, waits for a person, or has `ended`.

        If Redis is away, the slot's lease expires.
        """
        keys = [_name_key(account_id, "slots"), _name_mark(account_id, trace_id)]
        with contextlib.suppress(RedisUnavailable):
            await self._redis.run(decide_in_redis.RELEASE, keys, [trace_id, int(ended)])

    async def ping(self) -> None:
        """Check that Redis answers. Raises RedisUnavailable."""
        await self._redis.ping()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._redis.aclose()


def _list_numbers(rate: admission.Rate | None, runs: int | None) -> list[int]:
    """Return the interval, the burst and the runs as the script takes them."""
    interval, burst = (0, 0) if rate is None else (rate.interval_us, rate.burst)
    return [interval, burst, -1 if runs is None else runs]


def _hash_user(user_id: str) -> str:
    """Return the name by which Redis knows an end user."""
    return hashlib.sha256(user_id.encode()).hexdigest()[:32]


def _name_key(account_id: str, part: str) -> str:
    """Name a key; the braces put an account's keys on one node of a cluster."""
    return f"limits:{{{account_id}}}:{part}"


def _name_mark(account_id: str, trace_id: str) -> str:
    return _name_key(account_id, f"ended:{trace_id}")
