"""What goes into a decision and what comes out."""

import math
from typing import Literal, Protocol

import msgspec

RefusalCode = Literal["rate_limited", "quota_exceeded"]
"""Codes of the error table (design 6), both status 429."""


class PlanLimits(Protocol):
    """The numbers of a plan that are decided here; None is no limit. The directory's Plan is one."""

    @property
    def requests_per_minute(self) -> int | None: ...
    @property
    def concurrent_runs(self) -> int | None: ...
    @property
    def tokens_per_month(self) -> int | None: ...


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """PlanLimits as plain values."""

    requests_per_minute: int | None = None
    concurrent_runs: int | None = None
    tokens_per_month: int | None = None


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """A decision. A refused request took no token and no slot.

    `retry_after_s` is there with a refusal, a whole number from 1. `limit`, `remaining` and `reset_s` tell
    of the rate (None where the plan has none): requests a minute, requests that would pass now, seconds until
    the full rate is back. `month_known` is False where Redis does not know the month's tokens, as after a
    restart: read them from the log and give them to `Limiter.set_month`. `local`: Redis was not asked.
    """

    allowed: bool
    code: RefusalCode | None = None
    retry_after_s: int | None = None
    limit: int | None = None
    remaining: int | None = None
    reset_s: int | None = None
    month_known: bool = True
    local: bool = False


def interval_us(requests_per_minute: int) -> int:
    """Microseconds between two requests at the full rate, rounded so that the rate is never exceeded."""
    return math.ceil(60_000_000 / requests_per_minute)


def admission(
    limits: PlanLimits,
    *,
    code: RefusalCode | None,
    retry_us: float,
    remaining: int,
    reset_us: float,
    month_known: bool = True,
    local: bool = False,
) -> Admission:
    """An Admission from the microseconds that the algorithm counts in."""
    limit = limits.requests_per_minute
    return Admission(
        allowed=code is None,
        code=code,
        retry_after_s=None if code is None else max(1, math.ceil(retry_us / 1e6)),
        limit=limit,
        remaining=None if limit is None else remaining,
        reset_s=None if limit is None else math.ceil(reset_us / 1e6),
        month_known=month_known or limits.tokens_per_month is None,
        local=local,
    )
