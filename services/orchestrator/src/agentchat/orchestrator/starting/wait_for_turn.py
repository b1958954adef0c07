"""Start the run of a leased request, after waiting in line if its conversation is busy.

Requests of a conversation are served in order, wait up to thirty seconds, and hold no slot meanwhile. At its
turn a request needs a slot of its account again and waits for one, first in line.
"""

import asyncio
from contextlib import suppress
from functools import partial

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import frames
from agentchat.contracts.messages import CancelRequested
from agentchat.contracts.timings import LINE_SECONDS
from agentchat.conversations.aggregate.busy_rules import find_interrupting, find_receiver
from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.aggregate.opening_rules import MustWait, Rejected
from agentchat.conversations.errors import UnreadableEvent, WaitingLineFull
from agentchat.conversations.leases.waiting_line import LOOK_SECONDS
from agentchat.orchestrator.request_stages import LeasedRequest
from agentchat.orchestrator.run.endings import CANCELLED
from agentchat.orchestrator.run.interruption import Interrupted
from agentchat.orchestrator.services import WorkerServices
from agentchat.orchestrator.starting.decide_request import Outcome, decide_request
from agentchat.orchestrator.starting.run_slots import NoSlot, release_slot
from agentchat.orchestrator.starting.unreadable_conversation import decide_unreadable
from agentchat.runtime.postgres import DatabaseUnavailable
from agentchat.runtime.retry_loops import wait_for_event

_SLOT_SECONDS = 1.0
_BUSY = "Another message of this conversation is being answered. Try again when it has been."
_FULL = "Too many messages are waiting for this conversation or others of the account."
_NO_SLOT = "The account's concurrent runs were all in use when the message's turn came."


async def start_in_turn(services: WorkerServices, leased: LeasedRequest) -> Outcome:
    """Append the run's first events, after waiting for the request's turn if the conversation is busy.

    Raises:
        Interrupted, NoSlotYet, VersionConflict, WaiterLost, DatabaseUnavailable, UnreadableEvent
    """
    has_waited = leased.delivery.attempt > 1 or leased.request.attempt > 1  # perhaps at another worker
    try:
        if isinstance(leased.found.conversation, UnreadableEvent):
            raise leased.found.conversation
        outcome = await decide_request(
            services, leased, leased.found.conversation, first_in_line=leased.found.first_in_line
        )
        if isinstance(outcome, MustWait | NoSlot):
            has_waited = True
            outcome = await wait_for_turn(services, leased, outcome)
    except UnreadableEvent as error:
        outcome = await decide_unreadable(services, leased, error)
    if has_waited:
        await leave_line(services, leased)
    return outcome


async def wait_for_turn(services: WorkerServices, leased: LeasedRequest, why: MustWait | NoSlot) -> Outcome:
    """Join the line, publish `Queued`, and wait without a slot until the request's turn is decided.

    If this raises, the request is put back and its place in line is kept for the next delivery.

    Raises:
        Interrupted, WaiterLost, DatabaseUnavailable, UnreadableEvent
    """
    request = leased.request
    leased.delivery.free_slot()
    try:
        await services.line.join(
            request.conversation_id,
            request.trace_id,
            request.requested_at,
            request.account_id,
            request.requested_model or request.agent_id,
        )
        if isinstance(why, MustWait):
            await release_slot(services, leased)
        await services.bus.traces.publish_frame(
            request.trace_id, frames.Queued(seq=0, attempt=request.attempt)
        )
        return await _decide_at_turn(services, services.register.enter(leased.to_waiting()), why)
    except WaitingLineFull:
        return _build_busy_refusal(why, _FULL)
    except BaseException:
        services.line.leave_to_successor(request.trace_id)
        raise


async def leave_line(services: WorkerServices, leased: LeasedRequest) -> None:
    """Leave the line, here or at another worker. Without Postgres, the place expires."""
    with suppress(DatabaseUnavailable):
        await services.line.leave(leased.trace_id)


async def _decide_at_turn(services: WorkerServices, leased: LeasedRequest, why: MustWait | NoSlot) -> Outcome:
    try:
        while conversation := await leased.interruption.run_unless_interrupted(
            partial(_wait_for_next_decision, services, leased, why)
        ):
            outcome = await decide_request(services, leased, conversation, first_in_line=True, waited=True)
            if not isinstance(outcome, MustWait | NoSlot):
                return outcome
            why = outcome
            if isinstance(why, MustWait):
                await release_slot(services, leased)  # another run was faster
    except Interrupted as interrupted:
        if interrupted.reason != "cancelled":
            raise
        conversation = await services.store.load(leased.request.conversation_id)
        if conversation.run(leased.trace_id) is None:
            return Rejected(code="cancelled", message=CANCELLED)
        outcome = await decide_request(services, leased, conversation, first_in_line=True, waited=True)
        if not isinstance(outcome, MustWait | NoSlot):
            return outcome
    return _build_busy_refusal(why, _BUSY)


def _build_busy_refusal(why: MustWait | NoSlot, message: str) -> Rejected:
    """Build the refusal of a request whose turn did not come: no slot, or a busy conversation."""
    if isinstance(why, NoSlot):
        return Rejected(code=why.code, message=_NO_SLOT)
    return Rejected(code="conversation_busy", message=message)


async def _wait_for_next_decision(
    services: WorkerServices, leased: LeasedRequest, why: MustWait | NoSlot
) -> Conversation | None:
    if isinstance(why, MustWait) and why.for_save:
        return await _wait_until_saved(services, leased, why.trace_id)
    return await _wait_until_first(services, leased, why)


async def _wait_until_saved(services: WorkerServices, leased: LeasedRequest, trace_id: str) -> Conversation:
    """Wait until the run `trace_id` has saved the message that it received, or has ended or paused.

    If the message interrupts, stop the run. If it steers, that run answers its caller after LINE_SECONDS.
    """
    loop = asyncio.get_running_loop()
    end: float | None = loop.time() + _count_seconds_left(leased)
    changed = asyncio.Event()

    def on_frame(frame: frames.Frame) -> None:
        if isinstance(frame, _BOUNDARIES):
            changed.set()

    following = await services.bus.traces.follow_trace(trace_id, on_frame)
    try:
        while True:
            changed.clear()
            conversation = await services.store.load(leased.request.conversation_id)
            receiver = find_receiver(conversation, leased.trace_id)
            if receiver is None or receiver.state != "running" or receiver.pending:
                return conversation
            if find_interrupting(receiver) is not None:
                with suppress(BusUnavailable):
                    await services.bus.traces.cancel(
                        CancelRequested(trace_id=trace_id, account_id=leased.request.account_id)
                    )
            elif end is not None and loop.time() >= end:
                await publish_steered(services, leased, trace_id)
                end = None
            await wait_for_event(changed, LOOK_SECONDS)
    finally:
        await following.close()


_BOUNDARIES = frames.Completed | frames.Failed | frames.Paused | frames.ToolReturnedFrame | frames.Resumed


async def publish_steered(services: WorkerServices, leased: LeasedRequest, trace_id: str) -> None:
    """Publish that the reply of the run `trace_id` answers the request."""
    steered = frames.Steered(seq=0, attempt=leased.request.attempt, running_trace_id=trace_id)
    await services.bus.traces.publish_frame(leased.trace_id, steered)


def _count_seconds_left(leased: LeasedRequest) -> float:
    return LINE_SECONDS - leased.clock.seconds_since(leased.request.requested_at)


async def _wait_until_first(
    services: WorkerServices, leased: LeasedRequest, why: MustWait | NoSlot
) -> Conversation | None:
    """Wait until no earlier request and no run is before this one; None when the time is up.

    A request that was refused a slot waits a little first, unless no slot can be free in time. Raises
    DatabaseUnavailable.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + _count_seconds_left(leased)
    if isinstance(why, NoSlot):
        if loop.time() + why.retry_after_s > end:
            return None
        await asyncio.sleep(_SLOT_SECONDS)
    while await services.line.wait_until_first(leased.trace_id, end - loop.time()):
        conversation = await services.store.load(leased.request.conversation_id)
        active = _find_other_run(conversation, leased)
        if active is None:
            return conversation
        if loop.time() >= end:
            return None
        await _wait_for_end(services, leased, active, end)
    return None


def _find_other_run(conversation: Conversation, leased: LeasedRequest) -> Run | None:
    """Return another request's run under way, unless it waits for an approval, which takes too long."""
    active = conversation.active
    if active is None or active.trace_id == leased.trace_id or active.pending:
        return None
    return active


async def _wait_for_end(services: WorkerServices, leased: LeasedRequest, run: Run, end: float) -> None:
    """Wait until the run has ended or paused, at most until `end`.

    Its worker publishes that, unless the worker is dead or NATS is away.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def on_frame(frame: frames.Frame) -> None:
        if isinstance(frame, frames.Completed | frames.Failed | frames.Paused):
            ended.set()

    following = await services.bus.traces.follow_trace(run.trace_id, on_frame)
    try:
        while not ended.is_set() and loop.time() < end:
            # The run may have ended before it was followed.
            active = _find_other_run(await services.store.load(leased.request.conversation_id), leased)
            if active is None or active.trace_id != run.trace_id:
                return
            await wait_for_event(ended, min(LOOK_SECONDS, end - loop.time()))
    finally:
        await following.close()
