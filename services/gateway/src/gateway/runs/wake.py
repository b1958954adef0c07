"""An event for one waiter, and what is read by one reader."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable


class Wake:
    """`set` ends the wait that is under way, or the next one. asyncio.Event is for many: 0.8 KiB."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake whoever waits."""
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Return when `set` was called since the last wait. One at a time."""
        if not self._is_set:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._is_set = False


class Followed(ABC):
    """What one reader reads: he waits for more of it. `gone` is set once nobody reads any more.

    `on_tick` is called about once a second. `on_updates` is called when there is something to take before the
    end: it says whether it has been taken, so that nobody needs to be woken.
    """

    def __init__(self) -> None:
        self.gone = False
        self.on_tick: Callable[[float], None] | None = None
        self.on_updates: Callable[[], bool] | None = None
        self._wake = Wake()

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether there is no more to take."""

    async def wait(self) -> None:
        """Return when there may be something to take, or `gone` was set, or `nudge` was called."""
        await self._wake.wait()

    def nudge(self) -> None:
        """Wake the reader."""
        self._wake.set()

    def leave(self) -> None:
        """Nobody reads any more."""
        self.gone = True
        self._wake.set()
