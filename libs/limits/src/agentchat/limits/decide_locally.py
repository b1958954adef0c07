"""Limit the rates of requests within this process while Redis is away, by the same algorithm.

Each gateway then allows a plan's full rates by itself. Runs at once are not bounded meanwhile.
"""

import time
from collections.abc import Callable
from typing import Literal

from agentchat.limits.admission import Admission, Counts, PlanLimits, Rate, get_chat_rate, get_user_rate
from agentchat.runtime.bounded_map import BoundedMap

_RATES = 50_000

Bucket = Literal["reads", "writes"]
"""The kinds of requests next to the chat endpoints."""


class LocalLimiter:
    """Holds the arrival times of at most 50,000 rates; the one unused for longest is forgotten first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._arrivals: BoundedMap[str, float] = BoundedMap(_RATES)  # in microseconds

    def admit(self, account_id: str, limits: PlanLimits, *, user: str | None = None) -> Admission:
        """Decide without I/O, and take a token of the account's rate and of the user's if both have one."""
        now = self._clock() * 1e6
        rates = {f"{account_id} chats": get_chat_rate(limits)}
        if user is not None:
            rates[f"{account_id} user {user}"] = get_user_rate(limits)
        waits = [self._measure_wait(key, rate, now) for key, rate in rates.items()]
        if max(waits) <= 0:
            for key, rate in rates.items():
                self._take_token(key, rate, now)
        counts = [self._count(key, rate, now) for key, rate in rates.items()]
        return Admission(
            retry_us=next((wait for wait in waits if wait > 0), 0.0),
            account=counts[0],
            user=None if user is None else counts[1],
            by_user=waits[0] <= 0 < waits[-1],
            local=True,
        )

    def take(self, account_id: str, bucket: Bucket, rate: Rate) -> float:
        """Take a token; return 0, or the microseconds to wait."""
        now, key = self._clock() * 1e6, f"{account_id} {bucket}"
        wait = self._measure_wait(key, rate, now)
        if wait <= 0:
            self._take_token(key, rate, now)
        return max(0.0, wait)

    def _measure_wait(self, key: str, rate: Rate | None, now: float) -> float:
        """Return the microseconds until a token is free, 0 or less for now."""
        if rate is None:
            return 0.0
        return self._measure_arrival(key, rate, now) + rate.interval_us * (1 - rate.burst)

    def _take_token(self, key: str, rate: Rate | None, now: float) -> None:
        if rate is not None:
            self._arrivals.put(key, now + self._measure_arrival(key, rate, now) + rate.interval_us)

    def _count(self, key: str, rate: Rate | None, now: float) -> Counts:
        if rate is None:
            return Counts(0, 0.0, 0)
        reset_us = self._measure_arrival(key, rate, now)
        return Counts(int((rate.interval_us * rate.burst - reset_us) // rate.interval_us), reset_us, 0)

    def _measure_arrival(self, key: str, rate: Rate, now: float) -> float:
        """Return the microseconds until the full rate is back."""
        ahead = (self._arrivals.get(key) or 0.0) - now
        return max(0.0, min(ahead, rate.interval_us * rate.burst))
