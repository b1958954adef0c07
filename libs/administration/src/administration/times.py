"""Times as they are shown."""

from datetime import UTC, datetime
from typing import overload


@overload
def utc(moment: datetime) -> datetime: ...
@overload
def utc(moment: None) -> None: ...
def utc(moment: datetime | None) -> datetime | None:
    """In UTC, whatever the session of the database is set to."""
    return None if moment is None else moment.astimezone(UTC)
