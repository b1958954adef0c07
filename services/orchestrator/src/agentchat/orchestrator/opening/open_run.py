"""A request that this worker has taken, until its run is open or it is clear that there will be none.

It waits for a busy conversation: first come, first served, for thirty seconds, in no run slot. At its turn it
needs a run slot of the account again, and waits for that, first in line.
"""

import asyncio
from contextlib import suppress
from functools import partial

from agentchat.contracts import frames
from agentchat.contracts.timings import LINE_SECONDS
from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.aggregate.turn import MustWait, Rejected
from agentchat.conversations.errors import UnreadableEvent, WaitingLineFull
from agentchat.conversations.leases.waiting_line import LOOK_SECONDS
from agentchat.orchestrator.opening.decide_request import decide
from agentchat.orchestrator.opening.run_slots import NoSlot, give_back
from agentchat.orchestrator.opening.unreadable import end_unreadable
from agentchat.orchestrator.orchestrator_services import Parts
from agentchat.orchestrator.run.endings import CANCELLED
from agentchat.orchestrator.run.interruption import Interrupted
from agentchat.orchestrator.stages import EndedStage, Opened, PausedStage, Taken
from agentchat.runtime.following import wait_for_event
from agentchat.runtime.postgres import DatabaseUnavailable

_SLOT_SECONDS = 1.0
_BUSY = "Another message of this conversation is being answered."
_FULL = "Too many messages wait for this conversation, or for others of the account."
_NO_SLOT = "The account had no run to spare when the message's turn came."


async def wait_for_turn(
    parts: Parts, taken: Taken, why: MustWait | NoSlot
) -> Opened | EndedStage | PausedStage | Rejected:
    """Take a place in line, say `Queued`, and hold no slot until the request's turn has come and is decided.

    Where it raises, the request is put back: its place is kept for who takes it up next. Raises Interrupted,
    WaiterLost, DatabaseUnavailable, UnreadableEvent.
    """
    request = taken.request
    taken.delivery.free_slot()
    try:
        await parts.line.join(
            request.conversation_id,
            request.trace_id,
            request.requested_at,
            request.account_id,
            request.requested_model or request.agent_id,
        )
        if isinstance(why, MustWait):
            await give_back(parts, taken)
        await parts.bus.traces.publish_frame(request.trace_id, frames.Queued(seq=0, attempt=request.attempt))
        return await _decided(parts, parts.register.enter(taken.waiting()), why)
    except WaitingLineFull:
        return _busy(why, _FULL)
    except BaseException:
        parts.line.leave_to_successor(request.trace_id)
        raise


async def leave_line(parts: Parts, taken: Taken) -> None:
    """Give up the place that the request has here, or had at another worker; else it has to expire."""
    with suppress(DatabaseUnavailable):
        await parts.line.leave(taken.trace_id)


async def _decided(
    parts: Parts, taken: Taken, why: MustWait | NoSlot
) -> Opened | EndedStage | PausedStage | Rejected:
    try:
        while conversation := await taken.interruption.allowed(partial(_turn, parts, taken, why)):
            outcome = await decide(parts, taken, conversation, first_in_line=True, waited=True)
            if not isinstance(outcome, MustWait | NoSlot):
                return outcome
            why = outcome
            if isinstance(why, MustWait):
                await give_back(parts, taken)  # another run was faster
    except Interrupted as interrupted:
        if interrupted.reason != "cancelled":
            raise
        return Rejected(code="cancelled", message=CANCELLED)
    return _busy(why, _BUSY)


def _busy(why: MustWait | NoSlot, message: str) -> Rejected:
    """Of a request whose turn did not come: without a run slot, it may not have been for the conversation."""
    if isinstance(why, NoSlot):
        return Rejected(code=why.code, message=_NO_SLOT)
    return Rejected(code="conversation_busy", message=message)


async def _turn(parts: Parts, taken: Taken, why: MustWait | NoSlot) -> Conversation | None:
    """The conversation once nobody is before this request and no run is worked on; None when time is up.

    One that was refused a run slot first waits a little; not for a slot that cannot be free in time. Raises
    DatabaseUnavailable.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + LINE_SECONDS - taken.clock.seconds_since(taken.request.requested_at)
    if isinstance(why, NoSlot):
        if loop.time() + why.retry_after_s > end:
            return None
        await asyncio.sleep(_SLOT_SECONDS)
    while await parts.line.wait_until_first(taken.trace_id, end - loop.time()):
        conversation = await parts.store.load(taken.request.conversation_id)
        active = _other(conversation, taken)
        if active is None:
            return conversation
        if loop.time() >= end:
            return None
        await _end_of(parts, taken, active, end)
    return None


def _other(conversation: Conversation, taken: Taken) -> Run | None:
    """The run of another request that is under way, unless it waits for a person: that takes too long."""
    active = conversation.active
    if active is None or active.trace_id == taken.trace_id or active.pending:
        return None
    return active


async def _end_of(parts: Parts, taken: Taken, run: Run, end: float) -> None:
    """Return when that run has ended, or waits for a person, or at `end`.

    Its worker says so, unless it is dead or NATS away.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def hear(frame: frames.Frame) -> None:
        if isinstance(frame, frames.Completed | frames.Failed | frames.Paused):
            ended.set()

    following = await parts.bus.traces.follow_trace(run.trace_id, hear)
    try:
        while not ended.is_set() and loop.time() < end:
            # It may have ended before it was followed.
            active = _other(await parts.store.load(taken.request.conversation_id), taken)
            if active is None or active.trace_id != run.trace_id:
                return
            await wait_for_event(ended, min(LOOK_SECONDS, end - loop.time()))
    finally:
        await following.close()


async def open_run(parts: Parts, taken: Taken) -> Opened | EndedStage | PausedStage | Rejected:
    """The first append, after a wait for the request's turn where the conversation is busy.

    Raises Interrupted, NoSlotYet, VersionConflict, WaiterLost, DatabaseUnavailable,
    UnreadableEvent.
    """
    has_waited = taken.delivery.attempt > 1 or taken.request.attempt > 1  # perhaps, at another worker
    try:
        if isinstance(taken.found.conversation, UnreadableEvent):
            raise taken.found.conversation
        outcome = await decide(
            parts, taken, taken.found.conversation, first_in_line=taken.found.first_in_line
        )
        if isinstance(outcome, MustWait | NoSlot):
            has_waited = True
            outcome = await wait_for_turn(parts, taken, outcome)
    except UnreadableEvent as error:
        outcome = await end_unreadable(parts, taken, error)
    if has_waited:
        await leave_line(parts, taken)
    return outcome
