"""What is to become of a request: everything that decides it, read at once, and the first append."""

import asyncio

from bus import BusUnavailable
from contracts import frames
from contracts.timings import LINE_SECONDS, LINE_SLACK_SECONDS
from conversations.conversation import Run
from conversations.errors import VersionConflict
from conversations.turn import AgentFacts, Begin, GiveUp, Opening, Refusal, Resume, Wait, fail, open_turn
from orchestrator.agents import facts_of
from orchestrator.assignment import Assignment
from orchestrator.clock import RunClock
from orchestrator.endings import CANCELLED, heard
from orchestrator.parts import Parts
from orchestrator.resume import already_sent
from orchestrator.slots import has_slot
from orchestrator.turn_loop import run_of
from runtime import failpoints

_NO_AGENT = "There is no such agent."


async def gathered(parts: Parts, assignment: Assignment) -> bool:
    """The lease, and beside it all that is needed to decide; False where the lease is not to be had.

    What is read before the lease is had may be old: the conversation's version then says so. Raises
    StoreUnavailable, DatabaseUnavailable.
    """
    request = assignment.request
    lease = asyncio.ensure_future(parts.leases.acquire(request.trace_id))
    agent = asyncio.ensure_future(parts.agents.current(request.account_id, request.agent_id))
    cancelled = asyncio.ensure_future(_is_cancelled(parts, request.trace_id))
    reads = [lease, agent, cancelled, asyncio.ensure_future(_read(parts, assignment))]
    outcomes = await asyncio.gather(*reads, return_exceptions=True)
    assignment.lease = None if isinstance(outcomes[0], BaseException) else lease.result()
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    if assignment.lease is None:
        return False
    parts.assignments.supersede(assignment)
    failpoints.reach("orchestrator-leased")
    assignment.clock = RunClock(assignment.lease.now)
    assignment.agent = agent.result()
    if assignment.agent is not None:
        parts.listings.fetch(assignment.agent)
    if cancelled.result():
        assignment.interruption.interrupt("cancelled")
    return True


async def decided(parts: Parts, assignment: Assignment) -> Opening:
    """What becomes of the request now, with its events in the log.

    Raises StoreUnavailable, DatabaseUnavailable.
    """
    while True:
        opening = await _opening(parts, assignment)
        if not isinstance(opening, Begin | Resume | GiveUp):
            return opening
        try:
            new = opening.events
            if isinstance(opening, GiveUp):
                run = run_of(assignment.conversation, assignment.trace_id)
                new = (*await heard(parts, run, assignment.clock.now()), *new)
            failpoints.reach("orchestrator-before-begin")
            assignment.conversation = await parts.store.append(assignment.conversation, new)
            failpoints.reach("orchestrator-begun")
        except VersionConflict:
            assignment.conversation = await parts.store.load(assignment.request.conversation_id)
        else:
            return opening


async def _opening(parts: Parts, assignment: Assignment) -> Opening:
    request, now = assignment.request, assignment.clock.now()
    run = assignment.conversation.run(request.trace_id)
    expired = run is None and await _is_void(parts, assignment)
    if run is not None:
        if run.state == "running" and not await _has_agent(parts, assignment, run):
            return GiveUp(events=fail(run, "agent_not_found", _NO_AGENT, now))
        facts = _facts_of_run(run)
    elif assignment.interruption.reason == "cancelled":
        return Refusal(code="cancelled", message=CANCELLED)
    elif assignment.agent is None:
        return Refusal(code="agent_not_found", message=_NO_AGENT)
    else:
        facts = facts_of(assignment.agent)
    opening = open_turn(
        assignment.conversation,
        request,
        facts,
        now=now,
        expired=expired,
        worker=parts.leases.worker,
        heard=await _length_heard(parts, run),
    )
    if isinstance(opening, Begin) and not (assignment.first_in_line and await has_slot(parts, assignment)):
        return Wait(trace_id="")
    return opening


async def _has_agent(parts: Parts, assignment: Assignment, run: Run) -> bool:
    """A run keeps the version of the agent that it began with."""
    if assignment.agent is None or assignment.agent.version != run.agent_version:
        assignment.agent = await parts.agents.at_version(
            assignment.request.account_id, run.agent_id, run.agent_version
        )
    return assignment.agent is not None


async def _length_heard(parts: Parts, run: Run | None) -> int:
    """The code points of text that readers of a run under way have had; the recorded ones if NATS is away."""
    if run is None or run.state != "running":
        return 0
    try:
        kept = await parts.bus.frames_of(run.trace_id)
    except BusUnavailable:
        kept = []
    return len(run.text) + len(already_sent(run, kept).text)


def _facts_of_run(run: Run) -> AgentFacts:
    return AgentFacts(
        agent_version=run.agent_version,
        model=run.model,
        max_tool_rounds=run.max_tool_rounds,
        retrieves=run.retrieves,
        on_interruption=run.on_interruption,
    )


async def _read(parts: Parts, assignment: Assignment) -> None:
    """The conversation, and whether somebody waits for it. A new one, the first time, is empty."""
    request = assignment.request
    if request.new_conversation and request.attempt == 1 and assignment.delivery.attempt == 1:
        return
    assignment.conversation, assignment.first_in_line = await asyncio.gather(
        parts.store.load(request.conversation_id),
        parts.line.is_first(request.conversation_id, request.trace_id),
    )


async def _is_cancelled(parts: Parts, trace_id: str) -> bool:
    """NATS not answering is no reason to stop: cancellations are followed as well."""
    try:
        return await parts.bus.is_cancelled(trace_id)
    except BusUnavailable:
        return False


async def _is_void(parts: Parts, assignment: Assignment) -> bool:
    """Whether the deadline has passed, and the time in line too if the caller was told to wait."""
    asked_since = assignment.clock.seconds_since(assignment.request.requested_at)
    if asked_since > LINE_SECONDS + LINE_SLACK_SECONDS:
        return True
    if assignment.queued or assignment.clock.seconds_since(assignment.request.deadline) <= 0:
        return False
    try:
        kept = await parts.bus.frames_of(assignment.trace_id)
    except BusUnavailable:
        return True
    return not any(isinstance(frame, frames.Queued) for frame in kept)
