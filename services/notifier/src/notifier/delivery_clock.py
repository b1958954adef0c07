"""Postgres' time, carried on by this host's monotonic clock: signatures and retries know no other."""

import time
from datetime import UTC, datetime


class Clock:
    """`now` is Postgres' time in seconds since 1970, as it was just read."""

    def __init__(self, now: float) -> None:
        self._ahead = now - time.monotonic()

    def set(self, now: float) -> None:
        """It was read again."""
        self._ahead = now - time.monotonic()

    def now(self) -> datetime:
        """In UTC."""
        return datetime.fromtimestamp(time.monotonic() + self._ahead, UTC)
