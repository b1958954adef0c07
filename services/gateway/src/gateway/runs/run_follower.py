"""One reader of a followed run."""

import asyncio
from collections.abc import Callable

from contracts.updates import Update
from gateway.runs.after_pause import AfterPause
from gateway.runs.run_updates import ReadPosition, UpdateQueue
from gateway.runs.view import View


class RunFollower:
    """`take` what there is, `wait` for more. `gone` is set when its client has left.

    `on_tick` is called about once a second. `on_updates` is called when there is something to take before the
    end: it returns whether it has been taken, so that nothing has to be woken.
    """

    __slots__ = ("_after_pause", "_is_set", "_updates", "_view", "_waiter", "gone", "on_tick", "on_updates")

    def __init__(
        self, view: View, updates: UpdateQueue | ReadPosition, after_pause: AfterPause | None = None
    ) -> None:
        self.gone = False
        self.on_tick: Callable[[float], None] | None = None
        self.on_updates: Callable[[], bool] | None = None
        self._view = view
        self._updates = updates
        self._after_pause = after_pause
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None  # asyncio.Event is for many: 0.8 KiB

    @property
    def started(self) -> bool:
        """Whether the user's message is saved."""
        return self._view.started

    @property
    def waiting(self) -> bool:
        """Whether the request is in line before its conversation."""
        return self._view.waiting

    @property
    def refused(self) -> bool:
        """Whether a worker has refused the request, so that its run never begins."""
        return self._view.refused

    @property
    def ended(self) -> bool:
        """Whether the last update is there to take, or was taken."""
        return self._updates.ended

    @property
    def position(self) -> ReadPosition:
        """Its place, in a run that is followed from the beginning."""
        assert isinstance(self._updates, ReadPosition)
        return self._updates

    def take(self) -> list[Update]:
        """What has come since the last call."""
        updates = self._updates.take()
        return updates if self._after_pause is None else self._after_pause.rest(updates)

    async def wait(self) -> None:
        """Return when there may be something to take, or `gone` was set, or `nudge` was called."""
        if not self._is_set:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._is_set = False

    def notify(self) -> None:
        if self.ended or self.on_updates is None or not self.on_updates():
            self.nudge()

    def nudge(self) -> None:
        """End the wait that is under way, or the next one."""
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def leave(self) -> None:
        self.gone = True
        self.nudge()
