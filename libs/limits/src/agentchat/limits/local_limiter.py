"""Limit requests within this process while Redis is away, by the same algorithm.

Each gateway then allows a plan's full numbers by itself.
"""

import time
from collections.abc import Callable
from typing import Literal

from agentchat.limits.quota import Admission, PlanLimits, Rate, build_admission, get_chat_rate
from agentchat.runtime.bounded_map import BoundedMap

_ACCOUNTS = 10_000
Bucket = Literal["reads", "writes"]
"""What an account asks next to the chat endpoints."""


class _Account:
    """`arrivals`: theoretical arrival times; `slots`: the ends of leases by trace id. In microseconds."""

    __slots__ = ("arrivals", "slots")

    def __init__(self) -> None:
        self.arrivals: dict[str, float] = {}
        self.slots: dict[str, float] = {}

    def take(self, bucket: str, rate: Rate, now: float) -> float:
        """Take a token; return 0, or the microseconds to wait."""
        arrival = self.find_arrival(bucket, rate, now) + rate.interval_us
        wait = arrival - rate.interval_us * rate.burst - now
        if wait > 0:
            return wait
        self.arrivals[bucket] = arrival
        return 0.0

    def find_arrival(self, bucket: str, rate: Rate, now: float) -> float:
        window = rate.interval_us * rate.burst
        return max(now, min(self.arrivals.get(bucket, 0.0), now + window))


class LocalLimiter:
    """Holds at most 10,000 accounts; the one unused for longest is forgotten first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._accounts: BoundedMap[str, _Account] = BoundedMap(_ACCOUNTS)

    def admit(self, account_id: str, limits: PlanLimits, trace_id: str, *, lease_s: float) -> Admission:
        """Decide without I/O; with a lease of 0, on the rate alone."""
        now, account, rate = self._clock() * 1e6, self._get_account(account_id), get_chat_rate(limits)
        account.slots = {trace: end for trace, end in account.slots.items() if end > now}
        retry_us = 0.0
        if trace_id not in account.slots:
            runs = limits.concurrent_runs
            if lease_s and runs is not None and len(account.slots) >= runs:
                retry_us = 1e6
            elif rate is not None:
                retry_us = account.take("chats", rate, now)
        if not retry_us and lease_s:
            account.slots[trace_id] = now + lease_s * 1e6
        remaining, reset_us = 0, 0.0
        if rate is not None:
            reset_us = account.find_arrival("chats", rate, now) - now
            remaining = int((rate.interval_us * rate.burst - reset_us) // rate.interval_us)
        return build_admission(
            limits,
            retry_us=retry_us,
            remaining=remaining,
            reset_us=reset_us,
            runs=len(account.slots),
            local=True,
        )

    def take(self, account_id: str, bucket: Bucket, rate: Rate) -> float:
        """Take a token; return 0, or the microseconds to wait."""
        return self._get_account(account_id).take(bucket, rate, self._clock() * 1e6)

    def end(self, account_id: str, trace_id: str) -> None:
        """Free the slot of a run."""
        account = self._accounts.get(account_id)
        if account is not None:
            account.slots.pop(trace_id, None)

    def _get_account(self, account_id: str) -> _Account:
        account = self._accounts.get(account_id)
        if account is None:
            account = _Account()
            self._accounts.put(account_id, account)
        return account
