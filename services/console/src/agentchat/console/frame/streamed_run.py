"""A run as it goes on: what the log has of it, and the text that is streamed after that."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

import msgspec

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import frames
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.queries.find_run import load_run
from agentchat.runtime.loops import wait_for_event
from agentchat.runtime.postgres import Pool

_PAUSE_SECONDS = 0.1
_LOOK_SECONDS = 3.0


class StreamedRun(msgspec.Struct, frozen=True, kw_only=True):
    """`run` is None until its message is saved; `tail` is the text that the log does not have yet.

    `refused` is the code where it never will be.
    """

    run: Run | None
    tail: str
    waiting: bool = False
    refused: str | None = None

    @property
    def ended(self) -> bool:
        return self.refused is not None or (self.run is not None and self.run.state != "running")


async def follow_run(bus: Bus, pool: Pool, trace_id: str) -> AsyncIterator[StreamedRun]:
    """The run now and after each change, ten times a second at most, until it has ended.

    A text that is missed is read back, and the log is looked at every three seconds. Raises
    DatabaseUnavailable, UnreadableEvent.
    """
    follower = _Follower()
    following = await bus.traces.follow_trace(trace_id, follower.receive)
    try:
        while True:
            if follower.stale or follower.behind:
                follower.stale = False
                found = await load_run(pool, trace_id)
                if found is not None:
                    follower.know(found[1])
            if follower.behind:
                with contextlib.suppress(BusUnavailable):
                    follower.read_back(await bus.traces.read_frames(trace_id))
            live = follower.live()
            yield live
            if live.ended:
                return
            await asyncio.sleep(_PAUSE_SECONDS)
            if not await wait_for_event(follower.changed, _LOOK_SECONDS):
                follower.stale = True
            follower.changed.clear()
    finally:
        await following.close()


class _Follower:
    """Collects frames. `behind`: text came after some that is not here; `stale`: the log has more."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.behind = True
        self.stale = True
        self.run: Run | None = None
        self._text = ""
        self._waiting = False
        self._refused: str | None = None

    def receive(self, frame: frames.Frame) -> None:
        if isinstance(frame, frames.DeltaFrame) and frame.offset > len(self._text):
            self.behind = True
        self.take(frame)
        self.changed.set()

    def read_back(self, kept: Iterable[frames.Frame]) -> None:
        self.behind = False
        for frame in kept:
            self.take(frame)

    def take(self, frame: frames.Frame) -> None:
        """A text that is had already is passed over, so a frame may come twice."""
        match frame:
            case frames.DeltaFrame():
                if frame.offset <= len(self._text) < frame.offset + len(frame.text):
                    self._text = self._text[: frame.offset] + frame.text
            case frames.Queued():
                self._waiting = True
            case frames.Refused():
                self._refused = frame.code
            case frames.Alive():
                pass
            case _:
                self.stale = True

    def know(self, run: Run) -> None:
        """What the log has of the text stands, where frames of it were lost."""
        self.run = run
        if len(self._text) < len(run.text):
            self._text = run.text

    def live(self) -> StreamedRun:
        known = len(self.run.text) if self.run is not None else 0
        return StreamedRun(
            run=self.run,
            tail=self._text[known:],
            waiting=self._waiting and self.run is None,
            refused=self._refused if self.run is None else None,
        )
