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


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """PlanLimits as plain values."""

    requests_per_minute: int | None = None
    concurrent_runs: int | None = None
    user_requests_per_minute: int | None = None
    user_concurrent_runs: int | None = None


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
    """Return the rate of requests next to the chat endpoints; None where the plan has no rate.

    Ten times the plan's rate, 600 a minute at least, a tenth of it at once.
    """
    if limits.requests_per_minute is None:
        return None
    per_minute = max(LEAST_READS_PER_MINUTE, READS_PER_REQUEST * limits.requests_per_minute)
    return Rate(per_minute=per_minute, burst=per_minute // _BURST_SHARE)


def get_write_rate(limits: PlanLimits) -> Rate | None:
    """Return the rate of writes to conversations without a run; None where the plan has no rate.

    As often as the plan lets the account chat, 60 a minute at least; a tenth of it and 20 at least at once.
    """
    if limits.requests_per_minute is None:
        return None
    per_minute = max(LEAST_WRITES_PER_MINUTE, limits.requests_per_minute)
    return Rate(per_minute=per_minute, burst=max(LEAST_WRITES_AT_ONCE, per_minute // _BURST_SHARE))


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """A decision. A refused request took no token and no slot.

    `retry_after_s` is there with a refusal, a whole number from 1. `remaining` and `reset_s` tell of the rate
    (None where the plan has none): requests that would pass now, seconds until the full rate is back.
    `runs_remaining` are slots free now. `user_…` tell the same of the end user, None without one. `by_user`:
    the user's limits refuse the request, and not the account's. `local`: Redis was not asked.
    """

    allowed: bool
    retry_after_s: int | None = None
    remaining: int | None = None
    reset_s: int | None = None
    runs_remaining: int | None = None
    user_remaining: int | None = None
    user_reset_s: int | None = None
    user_runs_remaining: int | None = None
    by_user: bool = False
    local: bool = False


class Counts(msgspec.Struct, frozen=True):
    """What the algorithm counts in: requests that would pass now, microseconds, runs so far."""

    remaining: int
    reset_us: float
    runs: int


def build_admission(
    limits: PlanLimits,
    *,
    retry_us: float,
    account: Counts,
    user: Counts | None,
    by_user: bool = False,
    local: bool = False,
) -> Admission:
    """Build an Admission from the counts of the account and, if the request names one, of its user."""
    remaining, reset_s = _describe_rate(limits.requests_per_minute, account)
    user_remaining, user_reset_s = _describe_rate(limits.user_requests_per_minute, user)
    return Admission(
        allowed=retry_us <= 0,
        retry_after_s=max(1, math.ceil(retry_us / 1e6)) if retry_us > 0 else None,
        remaining=remaining,
        reset_s=reset_s,
        runs_remaining=_count_free(limits.concurrent_runs, account),
        user_remaining=user_remaining,
        user_reset_s=user_reset_s,
        user_runs_remaining=_count_free(limits.user_concurrent_runs, user),
        by_user=by_user,
        local=local,
    )


def _describe_rate(per_minute: int | None, counts: Counts | None) -> tuple[int | None, int | None]:
    if per_minute is None or counts is None:
        return None, None
    return counts.remaining, math.ceil(counts.reset_us / 1e6)


def _count_free(runs: int | None, counts: Counts | None) -> int | None:
    return None if runs is None or counts is None else max(0, runs - counts.runs)
