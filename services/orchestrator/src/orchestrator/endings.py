"""How a run's end is made known: the account's slot and tokens first, then the lease, then the frame."""

import asyncio
import contextlib
from collections.abc import Coroutine

from bus import BusUnavailable
from contracts import events, frames
from conversations.conversation import Run
from conversations.errors import StoreUnavailable
from orchestrator.assignment import Assignment
from orchestrator.parts import Parts
from orchestrator.resume import already_sent
from runtime import failpoints

CANCELLED = "The run was cancelled."


async def announce_end(parts: Parts, assignment: Assignment, run: Run) -> None:
    """Tell of a run that has ended in the log: the last numbered frame of its attempt, or a repeated one."""
    request = assignment.request
    await _let_go(parts, assignment, settle(parts, request.account_id, run))
    failpoints.reach("orchestrator-before-completed")
    await say(parts, assignment, end_frame(run))


async def heard(parts: Parts, run: Run, now: str) -> tuple[events.Delta, ...]:
    """What readers had of a round that was never recorded: the log keeps it with the end of its run.

    For who ends a run that he did not work on. () where TRACES has none of it any more.
    """
    try:
        already = already_sent(run, await parts.bus.frames_of(run.trace_id))
    except BusUnavailable:
        return ()
    if run.state != "running" or not already.text:
        return ()
    number = len(run.rounds) + 1
    return (events.Delta(trace_id=run.trace_id, at=now, round=number, text=already.text, cuts=already.cuts),)


async def refuse(parts: Parts, assignment: Assignment, code: str, message: str) -> None:
    """Nothing was appended, and nothing will be."""
    request = assignment.request
    await _let_go(parts, assignment, parts.limiter.release(request.account_id, request.trace_id))
    await say(parts, assignment, frames.Refused(seq=0, attempt=request.attempt, code=code, message=message))


async def settle(parts: Parts, account_id: str, run: Run) -> None:
    """Give back the slot of a run that has ended in the log, and count its tokens: any number of times."""
    assert run.ended_at is not None, "it has ended"
    await parts.limiter.settle(account_id, run.trace_id, run.usage.total, run.ended_at)


async def _let_go(parts: Parts, assignment: Assignment, freed: Coroutine[None, None, None]) -> None:
    """Free the account's slot and release the lease.

    The slot is not to be renewed again. Postgres not answering only means that the lease has to expire.
    """
    await asyncio.gather(freed, release_lease(parts, assignment))


async def release_lease(parts: Parts, assignment: Assignment) -> None:
    """Let another worker have the run at once."""
    lease, assignment.lease = assignment.lease, None
    if lease is not None:
        with contextlib.suppress(StoreUnavailable):
            await parts.leases.release(assignment.trace_id, lease)


async def say(parts: Parts, assignment: Assignment, frame: frames.Frame) -> None:
    """Numbered where an attempt of this worker has begun, else as it is."""
    if assignment.channel is not None:
        await assignment.channel.send(frame)
    else:
        await parts.bus.publish_frame(assignment.trace_id, frame)


def end_frame(run: Run) -> frames.Completed | frames.Failed:
    """The frame that tells how a run ended, unnumbered."""
    if run.state == "completed" and run.reply is not None:
        tool_calls = sum(len(each.calls) for each in run.rounds)
        return frames.Completed(
            seq=0, attempt=run.attempt, message=run.reply, tool_calls=tool_calls, usage=run.usage
        )
    if run.state == "cancelled":
        return frames.Failed(seq=0, attempt=run.attempt, code="cancelled", message=CANCELLED)
    return frames.Failed(
        seq=0, attempt=run.attempt, code=run.code or "internal_error", message=run.detail or ""
    )
