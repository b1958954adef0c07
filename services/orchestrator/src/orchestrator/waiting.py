"""Waiting for a busy conversation: first come, first served, for thirty seconds, in no run slot.

Whose turn it is needs a run slot of the account again: while all are taken he waits on, first in line.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from contracts import frames
from conversations.errors import StoreUnavailable
from orchestrator.assignment import Assignment
from orchestrator.parts import Parts
from orchestrator.slots import give_back

WAIT_SECONDS = 30.0
_LOOK_SECONDS = 0.5


@asynccontextmanager
async def place_in_line(parts: Parts, assignment: Assignment) -> AsyncIterator[None]:
    """Say `Queued`, give the run slot back and hold a place while the block runs. Raises StoreUnavailable."""
    await give_back(parts, assignment)
    queued = frames.Queued(seq=0, attempt=assignment.request.attempt)
    await parts.bus.publish_frame(assignment.trace_id, queued)
    assignment.queued = True
    try:
        # A place may have been taken although the call failed: it is given up all the same.
        request = assignment.request
        await parts.line.join(request.conversation_id, request.trace_id, request.requested_at)
        yield
    finally:
        with suppress(StoreUnavailable):
            await parts.line.leave(assignment.trace_id)


async def my_turn(parts: Parts, assignment: Assignment) -> bool:
    """Wait until nobody is before this request and no run is under way; False when time is up.

    One that was refused a run slot first waits a little; not for a slot that cannot be free in time.
    The conversation of the assignment is then as it was found. Raises StoreUnavailable.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + WAIT_SECONDS - assignment.clock.seconds_since(assignment.request.requested_at)
    if assignment.no_slot is not None:
        if loop.time() + (assignment.no_slot.retry_after_s or 0) > end:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    while True:
        if await parts.line.is_first(assignment.request.conversation_id, assignment.trace_id):
            assignment.first_in_line = True
            assignment.conversation = await parts.store.load(assignment.request.conversation_id)
            active = assignment.conversation.active
            if active is None or active.trace_id == assignment.trace_id:
                return True
            await _end_of(parts, active.trace_id, min(_LOOK_SECONDS, end - loop.time()))
        else:
            await asyncio.sleep(_LOOK_SECONDS)
        if loop.time() >= end:
            return False


async def _end_of(parts: Parts, trace_id: str, seconds: float) -> None:
    """Return when that run says that it has ended, or after so many seconds: its worker may be dead."""
    ended = asyncio.Event()

    def hear(frame: frames.Frame) -> None:
        if isinstance(frame, frames.Completed | frames.Failed):
            ended.set()

    following = await parts.bus.follow_trace(trace_id, hear)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended.wait()
    finally:
        await following.close()
