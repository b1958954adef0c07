"""The loop of everything that follows the log: step by step, then wait for the next append."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from bus import BusUnavailable, FeedConflict
from conversations.errors import StoreUnavailable
from runtime.logs import get_logger

POLL_SECONDS = 0.5
"""Should a notification be missed, an event is found after this time."""

GATHER_SECONDS = 0.02
"""After an append, so long is waited for others to share the step: a run makes several, close together."""

_RETRY_SECONDS = 0.5
_BEHIND_SECONDS = 30.0

Step = Callable[[], Awaitable[int]]


class Behind(Exception):  # noqa: N818 - a state, said in a health check
    """A follower has not come to the end of the log for too long."""


class Following:
    """Calls `step` over and over. It returns how much there was: less than `batch` at the end of the log."""

    def __init__(self, name: str, step: Step, batch: int) -> None:
        self._name = name
        self._step = step
        self._batch = batch
        self._rung = asyncio.Event()
        self._at_end = time.monotonic()
        self._logger = get_logger("projector.following")

    def ring(self) -> None:
        """There may be something new."""
        self._rung.set()

    async def run(self) -> None:
        """Until cancelled. What is away is asked again and again."""
        self._at_end = time.monotonic()
        while True:
            self._rung.clear()
            try:
                found = await self._step()
            except (StoreUnavailable, BusUnavailable, FeedConflict) as error:
                self._logger.warning("cannot_follow", follower=self._name, reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if found < self._batch:
                self._at_end = time.monotonic()
                await self._wait()

    def check(self) -> None:
        """Raises Behind."""
        behind = time.monotonic() - self._at_end
        if behind > _BEHIND_SECONDS:
            raise Behind(f"{self._name} has not been at the end of the log for {behind:.0f} s")

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._rung.wait()
                await asyncio.sleep(GATHER_SECONDS)
        except TimeoutError:
            pass
