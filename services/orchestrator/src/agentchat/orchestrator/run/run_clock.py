"""The time of a run: Postgres' clock when its lease was taken, and what has passed since by our own."""

import time
from datetime import UTC, datetime, timedelta


class RunClock:
    """No decision about a run depends on what this host takes the time to be."""

    def __init__(self, server_now: str) -> None:
        self._start = _parse_time(server_now)
        self._began = time.monotonic()

    def now(self) -> str:
        return self.after(0.0)

    def after(self, seconds: float) -> str:
        return _format_time(self._start, time.monotonic() - self._began + seconds)

    def seconds_since(self, at: str) -> float:
        """How long ago `at` was; negative where it is still to come."""
        start = (self._start - _parse_time(at)).total_seconds()
        return start + time.monotonic() - self._began


def add_seconds(at: str, seconds: float) -> str:
    return _format_time(_parse_time(at), seconds)


def _format_time(start: datetime, seconds: float) -> str:
    return (start + timedelta(seconds=seconds)).isoformat(timespec="microseconds") + "Z"


def _parse_time(at: str) -> datetime:
    return datetime.fromisoformat(at).astimezone(UTC).replace(tzinfo=None)
