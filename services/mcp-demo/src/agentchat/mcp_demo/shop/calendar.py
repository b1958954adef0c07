"""Fix the shop's day, so that "the last 30 days" gives the same answer on every run."""

from datetime import UTC, date, datetime
from typing import Annotated

from msgspec import Meta

Instant = Annotated[datetime, Meta(tz=True)]
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
TODAY: date = NOW.date()
OPENED: date = date(2026, 8, 14)
"""The day of the first order on record."""
