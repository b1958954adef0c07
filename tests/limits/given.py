"""Names and times for the tests of limits."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4


def make_id() -> str:
    return uuid4().hex


def move_to(seconds: float = 0.0) -> str:
    """Return a time of this month, so many seconds from now."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
