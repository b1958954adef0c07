"""Define the limits that go into a decision, and the decision."""

import math
from typing import Protocol

import msgspec


class PlanLimits(Protocol):
    """The numbers of a plan that are decided here; None is no limit. The directory's Plan is one."""

    @property
    def requests_per_minute(self) -> int | None:
        """Return the number of chats a minute."""

    @property
    def concurrent_runs(self) -> int | None:
        """Return the number of runs at a time."""

    @property
    def user_requests_per_minute(self) -> int | None:
        """Return the number of chats a minute of each end user."""

    @property
    def user_concurrent_runs(self) -> int | None:
        """Return the number of runs at a time of each end user."""


class Rate(msgspec.Struct, frozen=True):
    """A rate of requests a minute, evenly spread, with `burst` of them at once."""

    per_minute: int
    burst: int

    @property
    def interval_us(self) -> int:
        """Microseconds between two requests at the full rate, rounded so that it is never exceeded."""
        return math.ceil(60_000_000 / self.per_minute)


LEAST_WRITES_PER_MINUTE = 60
LEAST_WRITES_AT_ONCE = 20
READS_PER_REQUEST = 10
LEAST_READS_PER_MINUTE = 600
_BURST_SHARE = 10


def get_chat_rate(limits: PlanLimits) -> Rate | None:
    """Return the rate of chats: that of the plan, all of it at once; None for no limit."""
    return _build_full_rate(limits.requests_per_minute)


def get_user_rate(limits: PlanLimits) -> Rate | None:
    """Return the rate of one end user's chats, all of it at once; None for no limit."""
    return _build_full_rate(limits.user_requests_per_minute)


def _build_full_rate(per_minute: int | None) -> Rate | None:
    return None if per_minute is None else Rate(per_minute=per_minute, burst=per_minute)


def get_read_rate(limits: PlanLimits) -> Rate | None:
    """Return the rate of requests next to the chat endpoints; None if the plan has no rate.

    Ten times the plan's rate, 600 a minute at least, a tenth of it at once.
    """
    if limits.requests_per_minute is None:
        return None
    per_minute = max(LEAST_READS_PER_MINUTE, READS_PER_REQUEST * limits.requests_per_minute)
    return Rate(per_minute=per_minute, burst=per_minute // _BURST_SHARE)


def get_write_rate(limits: PlanLimits) -> Rate | None:
    """Return the rate of writes to conversations without a run; None if the plan has no rate.

    It is the plan's rate of chats, 60 a minute at least; a tenth of it, and 20 at least, may come at once.
    """
    if limits.requests_per_minute is None:
        return None
    per_minute = max(LEAST_WRITES_PER_MINUTE, limits.requests_per_minute)
    return Rate(per_minute=per_minute, burst=max(LEAST_WRITES_AT_ONCE, per_minute // _BURST_SHARE))


class Counts(msgspec.Struct, frozen=True):
    """The use of a rate and of concurrent runs.

    `remaining`: requests that would pass now; `reset_us`: microseconds until the full rate is back; both 0
    without a rate. `runs`: the runs that have a slot.
    """

    remaining: int
    reset_us: float
    runs: int

    @property
    def reset_s(self) -> int:
        """The seconds until the full rate is back."""
        return math.ceil(self.reset_us / 1e6)


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """A decision. A refused request took no token and no slot.

    `retry_us` is 0 if the request is admitted. `user` counts those of the end user, None without one.
    `by_user`: the user's limits refuse the request, and not the account's. `local`: Redis was not asked.
    """

    retry_us: float
    account: Counts
    user: Counts | None
    by_user: bool
    local: bool = False

    @property
    def allowed(self) -> bool:
        """True if the request is admitted."""
        return self.retry_us <= 0

    @property
    def retry_after_s(self) -> int:
        """The whole seconds to wait after a refusal, from 1."""
        return max(1, math.ceil(self.retry_us / 1e6))
