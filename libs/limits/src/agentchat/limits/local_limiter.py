"""Limit requests within this process while Redis is away, by the same algorithm.

Each gateway then allows a plan's full numbers by itself.
"""

import time
from collections.abc import Callable
from typing import Literal

from agentchat.limits.quota import (
    Admission,
    Counts,
    PlanLimits,
    Rate,
    build_admission,
    get_chat_rate,
    get_user_rate,
)
from agentchat.runtime.bounded_map import BoundedMap

_ACCOUNTS = 10_000
_USERS = 10_000
"""Of one account: more rates than these are looked through for those that are whole again."""
Bucket = Literal["reads", "writes"]
"""What an account asks next to the chat endpoints."""


class _Account:
    """`arrivals`: theoretical arrival times; `slots`: the ends of leases by trace id. In microseconds.

    `users` are those of runs, by trace id.
    """

    __slots__ = ("arrivals", "slots", "users")

    def __init__(self) -> None:
        self.arrivals: dict[str, float] = {}
        self.slots: dict[str, float] = {}
        self.users: dict[str, str] = {}

    def take(self, bucket: str, rate: Rate, now: float) -> float:
        """Take a token; return 0, or the microseconds to wait."""
        wait = self.measure_wait(bucket, rate, now)
        if wait <= 0:
            self.arrivals[bucket] = self.find_arrival(bucket, rate, now) + rate.interval_us
        return max(0.0, wait)

    def measure_wait(self, bucket: str, rate: Rate | None, now: float) -> float:
        """Return the microseconds until a token is free, 0 or less for now."""
        if rate is None:
            return 0.0
        return self.find_arrival(bucket, rate, now) + rate.interval_us - rate.interval_us * rate.burst - now

    def count(self, bucket: str, rate: Rate | None, now: float, runs: int) -> Counts:
        """Return what is left of a rate, and the runs so far."""
        if rate is None:
            return Counts(0, 0.0, runs)
        reset_us = self.find_arrival(bucket, rate, now) - now
        return Counts(int((rate.interval_us * rate.burst - reset_us) // rate.interval_us), reset_us, runs)

    def count_runs(self, user: str | None) -> int:
        """Count a user's runs that have a slot."""
        return sum(each == user for trace, each in self.users.items() if trace in self.slots)

    def forget_past(self, now: float) -> None:
        """Drop leases that have ended, and users whose rate is whole again."""
        self.slots = {trace: end for trace, end in self.slots.items() if end > now}
        self.users = {trace: user for trace, user in self.users.items() if trace in self.slots}
        if len(self.arrivals) > _USERS:
            self.arrivals = {bucket: at for bucket, at in self.arrivals.items() if at > now}

    def find_arrival(self, bucket: str, rate: Rate, now: float) -> float:
        window = rate.interval_us * rate.burst
        return max(now, min(self.arrivals.get(bucket, 0.0), now + window))


class LocalLimiter:
    """Holds at most 10,000 accounts; the one unused for longest is forgotten first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._accounts: BoundedMap[str, _Account] = BoundedMap(_ACCOUNTS)

    def admit(
        self,
        account_id: str,
        limits: PlanLimits,
        trace_id: str,
        *,
        user: str | None = None,
        lease_s: float,
    ) -> Admission:
        """Decide without I/O; with a lease of 0, on the rates alone."""
        now, account, rate = self._clock() * 1e6, self._get_account(account_id), get_chat_rate(limits)
        user_rate = None if user is None else get_user_rate(limits)
        bucket = f"user {user}"
        account.forget_past(now)
        retry_us, by_user = 0.0, False
        if trace_id not in account.slots:
            most, most_of_user = limits.concurrent_runs, limits.user_concurrent_runs if user else None
            own_wait = account.measure_wait("chats", rate, now)
            user_wait = account.measure_wait(bucket, user_rate, now)
            if own_wait > 0:
                retry_us = own_wait
            elif lease_s and most is not None and len(account.slots) >= most:
                retry_us = 1e6
            elif user_wait > 0:
                retry_us, by_user = user_wait, True
            elif lease_s and most_of_user is not None and account.count_runs(user) >= most_of_user:
                retry_us, by_user = 1e6, True
            else:
                for name, each in (("chats", rate), (bucket, user_rate)):
                    if each is not None:
                        account.take(name, each, now)
        if not retry_us and lease_s:
            account.slots[trace_id] = now + lease_s * 1e6
            if user is not None:
                account.users[trace_id] = user
        return build_admission(
            limits,
            retry_us=retry_us,
            account=account.count("chats", rate, now, len(account.slots)),
            user=None if user is None else account.count(bucket, user_rate, now, account.count_runs(user)),
            by_user=by_user,
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
