"""What goes into a decision and what comes out."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, Protocol

import msgspec

RefusalCode = Literal["rate_limited", "quota_exceeded"]
"""Codes of the error table (design 6), both status 429."""

_SCRIPT_YEAR_BEGINS = 2  # the scripts' years begin with March


class PlanLimits(Protocol):
    """The numbers of a plan that are decided here; None is no limit. The directory's Plan is one."""

    @property
    def requests_per_minute(self) -> int | None: ...
    @property
    def concurrent_runs(self) -> int | None: ...
    @property
    def tokens_per_month(self) -> int | None: ...


class Rate(msgspec.Struct, frozen=True):
    """So many a minute, evenly, and `burst` of them at once."""

    per_minute: int
    burst: int


LEAST_WRITES_PER_MINUTE = 60
LEAST_WRITES_AT_ONCE = 20
READS_PER_REQUEST = 10
LEAST_READS_PER_MINUTE = 600
_BURST_SHARE = 10


def reads_of(limits: PlanLimits) -> Rate | None:
    """What an account may ask next to the chat endpoints: ten times its plan's rate, 600 a minute at least, a
    tenth of it at once; None, no limit, where the plan has no rate.
    """
    if limits.requests_per_minute is None:
        return None
    per_minute = max(LEAST_READS_PER_MINUTE, READS_PER_REQUEST * limits.requests_per_minute)
    return Rate(per_minute=per_minute, burst=per_minute // _BURST_SHARE)


def writes_of(limits: PlanLimits) -> Rate | None:
    """How often an account may write to conversations without a run (title, metadata, forks): as often as its
    plan lets it chat, 60 a minute at least, a tenth of it and 20 at least at once; None, no limit, where the
    plan has no rate.
    """
    if limits.requests_per_minute is None:
        return None
    per_minute = max(LEAST_WRITES_PER_MINUTE, limits.requests_per_minute)
    return Rate(per_minute=per_minute, burst=max(LEAST_WRITES_AT_ONCE, per_minute // _BURST_SHARE))


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """PlanLimits as plain values."""

    requests_per_minute: int | None = None
    concurrent_runs: int | None = None
    tokens_per_month: int | None = None


class CountedMonth(Protocol):
    """A month's tokens as counted from the log: conversations.queries.month_usage.MonthSpent is one.

    `month` is as "2026-11", in UTC. `tokens` is complete for what ended up to `counted_to` (ISO 8601);
    `recent` has the tokens in it, by trace_id, of runs that ended after that.
    """

    @property
    def month(self) -> str: ...
    @property
    def tokens(self) -> int: ...
    @property
    def counted_to(self) -> str: ...
    @property
    def recent(self) -> Mapping[str, int]: ...


class KeptMonth(msgspec.Struct, frozen=True, kw_only=True):
    """What Redis has of an account's month, such as "2026-11"; `known` is False where nothing was counted."""

    month: str
    tokens: int
    known: bool


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """A decision. A refused request took no token and no slot.

    `retry_after_s` is there with a refusal, a whole number from 1. `limit`, `remaining` and `reset_s` tell
    of the rate (None where the plan has none): requests a minute, requests that would pass now, seconds until
    the full rate is back. `runs_remaining` are slots free now, `tokens_remaining` the rest of the month's
    tokens, `month_reset_s` seconds until the next month: None where the plan has no such number, or where
    nobody knows. `month_known` is False where Redis does not know the month's tokens, as after a restart: see
    `Limiter.recount_month`. `local`: Redis was not asked.
    """

    allowed: bool
    code: RefusalCode | None = None
    retry_after_s: int | None = None
    limit: int | None = None
    remaining: int | None = None
    reset_s: int | None = None
    runs_remaining: int | None = None
    tokens_remaining: int | None = None
    month_reset_s: int | None = None
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
    runs: int,
    tokens: int | None = None,
    month_rest_s: int | None = None,
    month_known: bool = True,
    local: bool = False,
) -> Admission:
    """An Admission from what the algorithm counts in: microseconds, and runs and tokens so far.

    `tokens` is None where nobody knows.
    """
    limit, quota = limits.requests_per_minute, limits.tokens_per_month
    known = quota is not None and tokens is not None
    return Admission(
        allowed=code is None,
        code=code,
        retry_after_s=None if code is None else max(1, math.ceil(retry_us / 1e6)),
        limit=limit,
        remaining=None if limit is None else remaining,
        reset_s=None if limit is None else math.ceil(reset_us / 1e6),
        runs_remaining=None if limits.concurrent_runs is None else max(0, limits.concurrent_runs - runs),
        tokens_remaining=max(0, quota - tokens) if quota is not None and tokens is not None else None,
        month_reset_s=month_rest_s if known else None,
        month_known=month_known or quota is None,
        local=local,
    )


def number_of(month: str) -> int:
    """The scripts' number of a month such as "2026-11"; of a time in it too."""
    return int(month[:4]) * 12 + int(month[5:7]) - 1 - _SCRIPT_YEAR_BEGINS


def name_of(number: int) -> str:
    """The month of a number: "2026-11"."""
    year, month = divmod(number + _SCRIPT_YEAR_BEGINS, 12)
    return f"{year:04}-{month + 1:02}"


def microseconds(at: str) -> int:
    """Unix time in microseconds of a time in ISO 8601."""
    since = datetime.fromisoformat(at).astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
