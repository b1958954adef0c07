"""A run that goes on, as events of its conversation's page: its text as it comes, and each step."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import msgspec

from bus import Bus, BusUnavailable
from contracts import frames

_PAUSE_SECONDS = 0.15
_LOOK_SECONDS = 2.0

_STEPS = (
    frames.Accepted,
    frames.Resumed,
    frames.SourcesFound,
    frames.ToolCalled,
    frames.ToolReturned,
    frames.Paused,
    frames.Completed,
    frames.Failed,
)


class RunChange(msgspec.Struct, frozen=True):
    """`text` is that of the run so far, over all its rounds. `is_step`: the log has more than before."""

    text: str
    is_step: bool


class _Frames:
    """Takes frames in any order, and some twice: each says where in the text its own begins."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.text = ""
        self.is_step = True

    def take(self, frame: frames.Frame) -> None:
        if isinstance(frame, frames.Delta):
            if frame.offset <= len(self.text):
                self.text = max(self.text, self.text[: frame.offset] + frame.text, key=len)
        elif isinstance(frame, _STEPS):
            self.is_step = True
        self.changed.set()

    def change(self) -> RunChange:
        self.changed.clear()
        step, self.is_step = self.is_step, False
        return RunChange(self.text, step)


async def changes(bus: Bus, trace_id: str) -> AsyncGenerator[RunChange, None]:
    """What became of a run, some times a second at most. Each few seconds a step is assumed: a frame may be
    lost, and time passes.
    """
    received = _Frames()
    following = bus.traces.follow_trace(trace_id, received.take)
    try:
        with contextlib.suppress(BusUnavailable):
            for frame in await bus.traces.frames_of(trace_id):
                received.take(frame)
        look_at = 0.0
        while True:
            if time.monotonic() >= look_at:
                received.is_step = True
            change = received.change()
            if change.is_step:
                look_at = time.monotonic() + _LOOK_SECONDS
            yield change
            await asyncio.sleep(_PAUSE_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await received.changed.wait()
    finally:
        await following.close()


async def events(
    bus: Bus,
    trace_id: str,
    look: Callable[[str], Awaitable[tuple[bytes, int, bool]]],
    tail: Callable[[str], bytes],
) -> AsyncIterator[bytes]:
    """`look` is given the run's text so far. It gives the page's event, how many characters of that text the
    log has, and whether the run goes on; `tail` gives the event of the text after them. Ends with the run.
    """
    known = 0
    async with contextlib.aclosing(changes(bus, trace_id)) as found:
        async for change in found:
            if change.is_step:
                shown, known, goes_on = await look(change.text)
                yield shown
                if not goes_on:
                    return
            else:
                yield tail(change.text[known:])
