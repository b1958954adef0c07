"""Tell the time of a run: Postgres' clock when its lease was taken, plus what has passed here."""

import time
from datetime import UTC, datetime, timedelta


class RunClock:
    """A clock that does not depend on this host's time of day."""

    def __init__(self, server_time: str) -> None:
        self._start = _parse_time(server_time)
        self._began = time.monotonic()

    def now(self) -> str:
        """Return the current time."""
        return self.after(0.0)

    def after(self, seconds: float) -> str:
        """Return the time in `seconds` from now."""
        return _format_time(self._start, time.monotonic() - self._began + seconds)

    def seconds_since(self, at: str) -> float:
        """Return the seconds since `at`; negative if it is in the future."""
        start = (self._start - _parse_time(at)).total_seconds()
        return start + time.monotonic() - self._began


def add_seconds(at: str, seconds: float) -> str:
    """Return the time `seconds` after `at`."""
    return _format_time(_parse_time(at), seconds)


def _format_time(start: datetime, seconds: float) -> str:
    return (start + timedelta(seconds=seconds)).isoformat(timespec="microseconds") + "Z"


def _parse_time(at: str) -> datetime:
    return datetime.fromisoformat(at).astimezone(UTC).replace(tzinfo=None)
