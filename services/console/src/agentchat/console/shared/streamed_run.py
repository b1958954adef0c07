"""Follow a run: its state from the log, and the text that is streamed after that."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

import msgspec

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import frames
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.queries.find_by_trace import load_run
from agentchat.runtime.postgres import Pool
from agentchat.runtime.retry_loops import wait_for_event

_PAUSE_SECONDS = 0.1
_LOOK_SECONDS = 3.0


class StreamedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run at one moment. `run` is None until its message is saved.

    `tail` is the text that the log does not have yet. `refused` is the error code if the message was refused.
    """

    run: Run | None
    tail: str
    waiting: bool = False
    refused: str | None = None

    @property
    def ended(self) -> bool:
        """True if the run has ended, or its message was refused."""
        return self.refused is not None or (self.run is not None and self.run.state != "running")


async def follow_run(bus: Bus, pool: Pool, trace_id: str) -> AsyncIterator[StreamedRun]:
    """Yield the run now and after each change, at most ten times a second, until it has ended.

    The frames come from `orchestrator/run/channel.py` by the bus. Missed text is read back from the stream of
    traces; the log is read at least every three seconds.

    Raises:
        DatabaseUnavailable: If Postgres does not answer.
        UnreadableEvent: If this release cannot read an event of the run.
    """
    follower = _Follower()
    following = await bus.traces.follow_trace(trace_id, follower.receive)
    try:
        while True:
            if follower.is_stale or follower.misses_text:
                follower.is_stale = False
                found = await load_run(pool, trace_id)
                if found is not None:
                    follower.update_run(found[1])
            if follower.misses_text:
                with contextlib.suppress(BusUnavailable):
                    follower.apply_stored(await bus.traces.read_frames(trace_id))
            live = follower.to_streamed_run()
            yield live
            if live.ended:
                return
            await asyncio.sleep(_PAUSE_SECONDS)
            if not await wait_for_event(follower.changed, _LOOK_SECONDS):
                follower.is_stale = True
            follower.changed.clear()
    finally:
        await following.close()


class _Follower:
    """The run as frames and the log tell it.

    `misses_text`: frames with earlier text were lost. `is_stale`: the log has newer events.
    """

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.misses_text = True
        self.is_stale = True
        self.run: Run | None = None
        self._text = ""
        self._waiting = False
        self._refused: str | None = None

    def receive(self, frame: frames.Frame) -> None:
        if isinstance(frame, frames.DeltaFrame) and frame.offset > len(self._text):
            self.misses_text = True
        self.apply(frame)
        self.changed.set()

    def apply_stored(self, kept: Iterable[frames.Frame]) -> None:
        self.misses_text = False
        for frame in kept:
            self.apply(frame)

    def apply(self, frame: frames.Frame) -> None:
        """Apply a frame. A frame may come twice: text that is known already is skipped."""
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
                self.is_stale = True

    def update_run(self, run: Run) -> None:
        """Take over the run from the log, and its text if frames were lost."""
        self.run = run
        if len(self._text) < len(run.text):
            self._text = run.text

    def to_streamed_run(self) -> StreamedRun:
        known = len(self.run.text) if self.run is not None else 0
        return StreamedRun(
            run=self.run,
            tail=self._text[known:],
            waiting=self._waiting and self.run is None,
            refused=self._refused if self.run is None else None,
        )
