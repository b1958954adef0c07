"""Read a run that this gateway follows: wait for its updates and take them."""

import asyncio
from collections.abc import Awaitable, Callable

from litestar.types import Receive

from agentchat.contracts.updates import STEERED, Broken, Update
from agentchat.gateway.http.refusals import Refusal
from agentchat.gateway.runs.after_pause import AfterPause
from agentchat.gateway.runs.frame_position import Phase
from agentchat.gateway.runs.run_updates import ReadPosition, UpdateQueue
from agentchat.gateway.runs.view import View

_JOINED = "The message has joined the run `running_trace_id`. Read that one."


class JoinedRun(Exception):  # noqa: N818 - an outcome
    """The message has joined the run `trace_id`, whose reply answers the request."""

    def __init__(self, trace_id: str) -> None:
        super().__init__(trace_id)
        self.trace_id = trace_id


class RunFollower:
    """One reader of a run: `take` what there is, `wait` for more, close with `aclose`.

    `gone` is set when its client has left. `on_tick` is called about once a second.
    """

    __slots__ = ("_after_pause", "_changed", "_on_close", "_updates", "_view", "gone", "on_tick")

    def __init__(
        self,
        view: View,
        updates: UpdateQueue | ReadPosition,
        after_pause: AfterPause | None = None,
        on_close: Callable[["RunFollower"], Awaitable[None]] | None = None,
    ) -> None:
        self.gone = False
        self.on_tick: Callable[[float], None] | None = None
        self._on_close = on_close
        self._view = view
        self._updates = updates
        self._after_pause = after_pause
        self._changed = asyncio.Event()

    @property
    def started(self) -> bool:
        """True if the user's message is saved."""
        return self._view.started

    @property
    def waiting(self) -> bool:
        """True if the request is queued behind another run of its conversation."""
        return self._view.phase is Phase.QUEUED

    @property
    def refused(self) -> bool:
        """True if a worker has refused the request, so that its run never starts."""
        return self._view.phase is Phase.REFUSED

    @property
    def ended(self) -> bool:
        """True if the last update can be taken, or was taken."""
        return self._updates.ended

    @property
    def position(self) -> ReadPosition:
        """The reader's position, in a run that is followed from its beginning."""
        assert isinstance(self._updates, ReadPosition)
        return self._updates

    def check_started(self) -> bool:
        """Return True once the user's message is saved.

        Raises Refusal if the run ended before that, JoinedRun if the message is another run's.
        """
        if self.ended and not self.started:
            last = self.take()[-1]
            assert isinstance(last, Broken)
            if last.code == STEERED and last.running_trace_id is not None:
                raise JoinedRun(last.running_trace_id)
            raise build_run_refusal(last)
        return self.started

    async def wait_until_saved(self) -> None:
        """Return once the user's message is saved. Raises as `check_started`."""
        while not self.check_started():
            await self.wait()

    def take(self) -> list[Update]:
        """Return the updates since the last call."""
        updates = self._updates.take()
        return updates if self._after_pause is None else self._after_pause.take_rest(updates)

    async def wait(self) -> None:
        """Return when there may be something to take, or `gone` was set, or `wake` was called."""
        await self._changed.wait()
        self._changed.clear()

    def wake(self) -> None:
        """End the wait that is under way, or the next one."""
        self._changed.set()

    def watch_client(self, receive: Receive) -> "asyncio.Task[None]":
        """Set `gone` when the client closes the connection, until the task is cancelled."""
        return asyncio.create_task(self._leave_with_client(receive))

    async def _leave_with_client(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":  # of a GET its empty body comes first
            pass
        self.gone = True
        self.wake()

    async def aclose(self) -> None:
        """Stop following the run, once."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            await on_close(self)


def build_run_refusal(last: Broken) -> Refusal:
    """Build the refusal of a run that failed. Unknown and foreign conversations get the same message."""
    if last.code == STEERED:
        return Refusal("conversation_busy", _JOINED, running_trace_id=last.running_trace_id)
    message = None if last.code == "conversation_not_found" else last.message
    return Refusal(last.code, message, approvals=last.approvals, running_trace_id=last.running_trace_id)
