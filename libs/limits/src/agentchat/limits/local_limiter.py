"""Limit requests within this process while Redis is away, by the same algorithm.

Each gateway then allows a plan's full numbers by itself.
"""

import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from agentchat.limits.quota import Admission, Counts, PlanLimits, Rate, get_chat_rate, get_user_rate
from agentchat.runtime.bounded_map import BoundedMap

_ACCOUNTS = 10_000
_USERS = 10_000
"""Of one account: more rates than these are looked through for those that are whole again."""
Bucket = Literal["reads", "writes"]
"""What an account asks next to the chat endpoints."""


class _Bounds(NamedTuple):
    """The bounds of an account, or of one of its users. `bucket` names the tokens of the rate."""

    bucket: str
    rate: Rate | None
    runs: int | None


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

    def count(self, bounds: _Bounds, now: float, runs: int) -> Counts:
        """Return what is left of a rate, and the runs so far."""
        rate = bounds.rate
        if rate is None:
            return Counts(0, 0.0, runs)
        reset_us = self.find_arrival(bounds.bucket, rate, now) - now
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
        now, account = self._clock() * 1e6, self._get_account(account_id)
        account.forget_past(now)
        own = _Bounds("chats", get_chat_rate(limits), limits.concurrent_runs)
        of_user = _Bounds(f"user {user}", get_user_rate(limits), limits.user_concurrent_runs)
        parties = [(own, len(account.slots))]
        if user is not None:
            parties.append((of_user, account.count_runs(user)))
        retry_us, refusing = 0.0, own
        if trace_id not in account.slots:
            for refusing, runs in parties:
                retry_us = account.measure_wait(refusing.bucket, refusing.rate, now)
                if retry_us <= 0 and lease_s and refusing.runs is not None and runs >= refusing.runs:
                    retry_us = 1e6
                if retry_us > 0:
                    break
            else:
                for each, _ in parties:
                    if each.rate is not None:
                        account.take(each.bucket, each.rate, now)
        if retry_us <= 0 and lease_s:
            account.slots[trace_id] = now + lease_s * 1e6
            if user is not None:
                account.users[trace_id] = user
        return Admission(
            retry_us=max(0.0, retry_us),
            account=account.count(own, now, len(account.slots)),
            user=None if user is None else account.count(of_user, now, account.count_runs(user)),
            by_user=retry_us > 0 and refusing is of_user,
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
