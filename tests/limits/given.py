"""Names, times and plans for the tests of limits."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec


def make_id() -> str:
    return uuid4().hex


def move_to(seconds: float = 0.0) -> str:
    """Return a time of this month, so many seconds from now."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """PlanLimits as plain values."""

    requests_per_minute: int | None = None
    concurrent_runs: int | None = None
    user_requests_per_minute: int | None = None
    user_concurrent_runs: int | None = None
