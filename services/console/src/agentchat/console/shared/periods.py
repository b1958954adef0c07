"""Compute the bounds of the periods that lists can be filtered by."""

from datetime import UTC, datetime, timedelta

PERIODS = {
    "hour": "last hour",
    "today": "today",
    "yesterday": "yesterday",
    "week": "last 7 days",
    "month": "last 30 days",
}
_DAYS = {"today": (0, None), "yesterday": (1, 1), "week": (6, None), "month": (29, None)}
"""The days before today at which each choice starts, and its length in days; None: until now."""


def compute_bounds(period: str, now: str) -> tuple[str, str | None]:
    """Compute the start and the end of a period before `now`, in UTC; None: until now."""
    at = datetime.fromisoformat(now).astimezone(UTC)
    if period == "hour":
        return (at - timedelta(hours=1)).isoformat(), None
    before, length = _DAYS[period]
    begin = at.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=before)
    return begin.isoformat(), None if length is None else (begin + timedelta(days=length)).isoformat()
