"""The limiter for when Redis is away: the same algorithm, for this process alone.

Each gateway then allows a plan's full numbers by itself, and the month's tokens, which it does not know, are
not checked.
"""

import time
from collections.abc import Callable
from typing import Literal

from limits.quota import Admission, PlanLimits, Rate, RefusalCode, admission, interval_us
from runtime.bounded import BoundedMap

_ACCOUNTS = 10_000
Bucket = Literal["reads", "writes"]
"""What an account asks next to the chat endpoints."""


class _Account:
    """`tat`: theoretical arrival time in microseconds; `buckets`: that of reads and of writes. `slots`:
    trace_id -> end of its lease, the same.
    """

    __slots__ = ("buckets", "slots", "tat")

    def __init__(self) -> None:
        self.tat = 0.0
        self.buckets: dict[Bucket, float] = {}
        self.slots: dict[str, float] = {}


def _is_full(limits: PlanLimits, account: _Account) -> bool:
    return limits.concurrent_runs is not None and len(account.slots) >= limits.concurrent_runs


class LocalLimiter:
    """Holds at most 10,000 accounts; the one unused for longest is forgotten first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._accounts: BoundedMap[str, _Account] = BoundedMap(_ACCOUNTS)

    def admit(self, account_id: str, limits: PlanLimits, trace_id: str, *, lease_s: float) -> Admission:
        """The decision, without waiting for anything; with a lease of 0 on the rate alone."""
        now = self._clock() * 1e6
        account = self._account(account_id)
        account.slots = {trace: end for trace, end in account.slots.items() if end > now}
        rate = limits.requests_per_minute
        interval = interval_us(rate) if rate is not None else 0
        window = interval * (rate or 0)
        account.tat = max(now, min(account.tat, now + window))
        code: RefusalCode | None = None
        retry_us = 0.0
        if trace_id not in account.slots:
            wait_us = account.tat + interval - window - now
            if rate is not None and wait_us > 0:
                code, retry_us = "rate_limited", wait_us
            elif lease_s and _is_full(limits, account):
                code, retry_us = "rate_limited", 1e6
            else:
                account.tat += interval
        if code is None and lease_s:
            account.slots[trace_id] = now + lease_s * 1e6
        remaining = int((now + window - account.tat) // interval) if interval else 0
        reset_us = account.tat - now
        return admission(
            limits,
            code=code,
            retry_us=retry_us,
            remaining=remaining,
            reset_us=reset_us,
            runs=len(account.slots),
            local=True,
        )

    def admit_bucket(self, account_id: str, bucket: Bucket, rate: Rate) -> float:
        """Microseconds to wait; 0 where it has taken a token."""
        now = self._clock() * 1e6
        account = self._account(account_id)
        interval = interval_us(rate.per_minute)
        window = interval * rate.burst
        arrival = max(now, min(account.buckets.get(bucket, 0.0), now + window)) + interval
        if arrival - window > now:
            return arrival - window - now
        account.buckets[bucket] = arrival
        return 0.0

    def end(self, account_id: str, trace_id: str) -> None:
        account = self._accounts.get(account_id)
        if account is not None:
            account.slots.pop(trace_id, None)

    def _account(self, account_id: str) -> _Account:
        account = self._accounts.get(account_id)
        if account is None:
            account = _Account()
            self._accounts.put(account_id, account)
        return account
