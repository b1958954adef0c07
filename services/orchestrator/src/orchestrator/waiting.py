"""Waiting for a busy conversation: first come, first served, for thirty seconds, in no run slot.

Whose turn it is needs a run slot of the account again: while all are taken he waits on, first in line.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from contracts import frames
from contracts.timings import LINE_SECONDS
from conversations.conversation import Run
from conversations.errors import StoreUnavailable
from conversations.waiting import LOOK_SECONDS
from orchestrator.assignment import Assignment
from orchestrator.parts import Parts
from orchestrator.slots import give_back

_SLOT_SECONDS = 1.0


@asynccontextmanager
async def place_in_line(parts: Parts, assignment: Assignment) -> AsyncIterator[None]:
    """Take a place, say `Queued` and hold no run slot while the block runs; then give the place up.

    A block that raises is one whose request is put back: its place is kept for who takes it up next. Raises
    StoreUnavailable, WaitingLineFull.
    """
    request = assignment.request
    try:
        await parts.line.join(
            request.conversation_id, request.trace_id, request.requested_at, request.account_id
        )
        await give_back(parts, assignment)
        queued = frames.Queued(seq=0, attempt=request.attempt)
        await parts.bus.publish_frame(request.trace_id, queued)
        assignment.queued = True
        yield
    except BaseException:
        parts.line.keep(request.trace_id)
        raise
    await leave_line(parts, assignment)


async def leave_line(parts: Parts, assignment: Assignment) -> None:
    """Give up the place that the request has here, or had at another worker; else it has to expire."""
    with suppress(StoreUnavailable):
        await parts.line.leave(assignment.trace_id)


async def my_turn(parts: Parts, assignment: Assignment) -> bool:
    """Wait until nobody is before this request and no run is under way; False when time is up.

    One that was refused a run slot first waits a little; not for a slot that cannot be free in time.
    The conversation of the assignment is then as it was found. Raises StoreUnavailable.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + LINE_SECONDS - assignment.clock.seconds_since(assignment.request.requested_at)
    if assignment.no_slot is not None:
        if loop.time() + (assignment.no_slot.retry_after_s or 0) > end:
            return False
        await asyncio.sleep(_SLOT_SECONDS)
    while await parts.line.until_first(assignment.trace_id, end - loop.time()):
        assignment.first_in_line = True
        active = await _active(parts, assignment)
        if active is None:
            return True
        if loop.time() >= end:
            return False
        await _end_of(parts, assignment, active, end)
    return False


async def _active(parts: Parts, assignment: Assignment) -> Run | None:
    """The run of another request that is under way."""
    assignment.conversation = await parts.store.load(assignment.request.conversation_id)
    active = assignment.conversation.active
    return None if active is None or active.trace_id == assignment.trace_id else active


async def _end_of(parts: Parts, assignment: Assignment, run: Run, end: float) -> None:
    """Return when that run has ended, or at `end`. Its worker says so, unless it is dead or NATS away."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def hear(frame: frames.Frame) -> None:
        if isinstance(frame, frames.Completed | frames.Failed):
            ended.set()

    following = await parts.bus.follow_trace(run.trace_id, hear)
    try:
        while not ended.is_set() and loop.time() < end:
            active = await _active(parts, assignment)  # it may have ended before it was followed
            if active is None or active.trace_id != run.trace_id:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(min(LOOK_SECONDS, end - loop.time())):
                    await ended.wait()
    finally:
        await following.close()
