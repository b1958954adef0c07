"""Run a follower of the log: step by step, then wait for the next append."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from agentchat.bus.errors import BusUnavailable, FeedConflict
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import DatabaseUnavailable
from agentchat.runtime.retry_loops import follow, wait_for_event

POLL_SECONDS = 1.0
"""The time after which an event is found if its notification was missed."""

LONGEST_POLL_SECONDS = 8.0
"""While nothing happens, the time between two polls doubles up to this one."""

TOGETHER_SECONDS = 0.02
"""The time between two steps, unless the log has more than a step takes.

Appends meanwhile share a step. An append after a pause is followed at once.
"""

_RETRY_SECONDS = 0.5
_LAG_SECONDS = 30.0

Step = Callable[[], Awaitable[bool]]
"""Does some of what there is to do, and returns True if there is more."""


class LogLag(Exception):  # noqa: N818 - a state, reported by a health check
    """A follower has not reached the end of the log for too long."""


class LogFollower:
    """Calls `step` until cancelled: again at once if there is more, otherwise when it is woken."""

    def __init__(self, name: str, step: Step, *, poll_seconds: float = POLL_SECONDS) -> None:
        self.name = name
        self._step = step
        self._poll_seconds = self._pause = poll_seconds
        self._appended = asyncio.Event()
        self._at_end = time.monotonic()
        self._logger = get_logger("agentchat.projector.follower_loop").bind(follower=name)

    def wake(self) -> None:
        """Begin the next step now."""
        self._appended.set()

    async def run(self) -> None:
        """Follow until cancelled. If a server is away, it is tried again."""
        self._at_end = time.monotonic()
        away = (DatabaseUnavailable, BusUnavailable, FeedConflict)
        await follow(
            self._follow_on, away, retry_seconds=_RETRY_SECONDS, log=self._logger, problem="cannot_follow"
        )

    async def _follow_on(self) -> None:
        next_at = time.monotonic() + TOGETHER_SECONDS
        self._appended.clear()
        if not await self._step():
            self._at_end = time.monotonic()
            if await wait_for_event(self._appended, self._pause):
                self._pause = self._poll_seconds
            else:
                self._pause = max(self._poll_seconds, min(2 * self._pause, LONGEST_POLL_SECONDS))
            await asyncio.sleep(max(0.0, next_at - time.monotonic()))

    @property
    def lag(self) -> float:
        """Seconds since it was at the end of the log.

        At most the longer of `poll_seconds` and LONGEST_POLL_SECONDS while it is not behind.
        """
        return time.monotonic() - self._at_end

    def check(self) -> None:
        """Raise LogLag if it has been behind for too long."""
        if self.lag > _LAG_SECONDS:
            raise LogLag(f"{self.name} has been behind the log for {self.lag:.0f} s")
