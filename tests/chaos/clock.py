"""The run's clock: seconds since its start."""

import time
from datetime import datetime


class Clock:
    """Monotonic; times of other processes' wall clocks are translated."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """It is 0 now."""
        self._began = time.monotonic()
        self._began_at = time.time()

    def now(self) -> float:
        return round(time.monotonic() - self._began, 4)

    def of(self, at: str) -> float:
        """A time in ISO 8601 on this clock."""
        return round(datetime.fromisoformat(at).timestamp() - self._began_at, 4)
