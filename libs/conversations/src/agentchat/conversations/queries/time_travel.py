"""Parse the parameters of time travel: a version of a conversation, or a time."""

import re
from datetime import UTC, datetime

VersionOrTime = int | datetime
"""A version (that of the last event that counts), or a time (events at it count)."""

WRONG_VERSION_OR_TIME = "must be a version, such as 12, or a time in ISO 8601, such as 2026-11-21T09:30:00Z"
_VERSION = re.compile(r"[0-9]{1,18}\Z")


def parse_version_or_time(text: str) -> VersionOrTime:
    """Parse a version or a time as people write it; a time without an offset is UTC.

    Raises ValueError.
    """
    if text.isascii() and _VERSION.match(text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(WRONG_VERSION_OR_TIME) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def log_time(text: str) -> str:
    """Format a time in ISO 8601 as events have it: UTC, with microseconds. Raises ValueError."""
    time = datetime.fromisoformat(text)
    utc = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return utc.isoformat(timespec="microseconds").replace("+00:00", "Z")
