"""What becomes of a request now: decided by the rules of a turn, with its events in the log."""

from collections.abc import Iterator
from contextlib import contextmanager

from bus import BusUnavailable
from contracts import frames
from contracts.events import AgentFacts
from contracts.timings import LINE_SECONDS, LINE_SLACK_SECONDS
from conversations.aggregate import turn
from conversations.aggregate.conversation import Conversation, Run
from conversations.aggregate.turn import open_turn
from conversations.errors import VersionConflict
from directory.agents import AgentConfig
from orchestrator.opening.run_slots import NoSlot, take_slot, take_slot_again
from orchestrator.orchestrator_services import Parts
from orchestrator.run.endings import CANCELLED, heard, publish_end
from orchestrator.run.interrupted_text import already_sent
from orchestrator.run.run_log import run_of
from orchestrator.run_agent import facts_of
from orchestrator.stages import EndedStage, Opened, PausedStage, Taken
from runtime import failpoints

_NO_AGENT = "There is no such agent."


async def decide(
    parts: Parts, taken: Taken, conversation: Conversation, *, first_in_line: bool, waited: bool = False
) -> Opened | EndedStage | PausedStage | turn.Rejected | turn.MustWait | NoSlot:
    """The outcome for now. `waited`: it is in line, has told its caller so, and has no slot of the account's.

    Raises NoSlotYet, DatabaseUnavailable, UnreadableEvent.
    """
    while True:
        run = conversation.run(taken.trace_id)
        agent = await _agent_of(parts, taken, run)
        opening = await _opening(parts, taken, conversation, agent, waited=waited)
        if isinstance(opening, turn.Resume) and run is not None and (run.pending or run.is_unpaused):
            await take_slot_again(parts, taken)
        if isinstance(opening, turn.Begin | turn.Supersede):
            if not first_in_line:
                return turn.MustWait(trace_id="")
            if refused := await take_slot(parts, taken, waited=waited):
                return refused
        match opening:
            case turn.Rejected() | turn.MustWait():
                return opening
            case turn.AlreadyEnded():
                return taken.ended(opening.run)
            case turn.AlreadyPaused():
                return taken.paused()
            case turn.GiveUp():
                assert run is not None, "it has had its attempts"
                new = (*await heard(parts, run, taken.clock.now()), *opening.events)
            case turn.Begin() | turn.Supersede() | turn.Resume():
                new = opening.events
        try:
            with begins():
                conversation = await parts.store.append(conversation, new)
        except VersionConflict:
            conversation = await parts.store.load(taken.request.conversation_id)
            continue
        if isinstance(opening, turn.GiveUp):
            return taken.ended(run_of(conversation, taken.trace_id))
        if isinstance(opening, turn.Supersede):
            superseded = run_of(conversation, opening.trace_id)
            await publish_end(parts, taken.request.account_id, superseded)
        assert agent is not None, "a run begins with its agent"
        return parts.register.enter(taken.opened(conversation, agent))


@contextmanager
def begins() -> Iterator[None]:
    failpoints.reach("orchestrator-before-begin")
    yield
    failpoints.reach("orchestrator-begun")


async def _agent_of(parts: Parts, taken: Taken, run: Run | None) -> AgentConfig | None:
    """A run keeps the version of the agent that it began with."""
    agent = taken.found.agent
    if run is None or run.state != "running" or (agent is not None and agent.version == run.agent_version):
        return agent
    return await parts.agents.at_version(taken.request.account_id, run.agent_id, run.agent_version)


async def _opening(
    parts: Parts, taken: Taken, conversation: Conversation, agent: AgentConfig | None, *, waited: bool
) -> turn.Opening:
    request, now = taken.request, taken.clock.now()
    run = conversation.run(request.trace_id)
    expired = run is None and await _is_void(parts, taken, waited=waited)
    if run is not None:
        if run.state == "running" and agent is None:
            return turn.GiveUp(events=turn.fail(run, "agent_not_found", _NO_AGENT, now))
        if run.pending and taken.interruption.reason == "cancelled":
            return turn.GiveUp(events=turn.cancel(run, now))
        facts: AgentFacts = run
    elif taken.interruption.reason == "cancelled":
        return turn.Rejected(code="cancelled", message=CANCELLED)
    elif agent is None:
        return turn.Rejected(code="agent_not_found", message=_NO_AGENT)
    else:
        facts = facts_of(agent)
    return open_turn(
        conversation,
        request,
        facts,
        now=now,
        expired=expired,
        worker=parts.leases.worker,
        heard=await _length_heard(parts, run),
    )


async def _length_heard(parts: Parts, run: Run | None) -> int:
    """The code points of text that readers of a run under way have had; the recorded ones if NATS is away."""
    if run is None or run.state != "running":
        return 0
    try:
        kept = await parts.bus.traces.frames_of(run.trace_id)
    except BusUnavailable:
        kept = []
    return len(run.text) + len(already_sent(run, kept).text)


async def _is_void(parts: Parts, taken: Taken, *, waited: bool) -> bool:
    """Whether the deadline has passed, and the time in line too if the caller was told to wait."""
    asked_since = taken.clock.seconds_since(taken.request.requested_at)
    if asked_since > LINE_SECONDS + LINE_SLACK_SECONDS:
        return True
    if waited or taken.clock.seconds_since(taken.request.deadline) <= 0:
        return False
    try:
        kept = await parts.bus.traces.frames_of(taken.trace_id)
    except BusUnavailable:
        return True
    return not any(isinstance(frame, frames.Queued) for frame in kept)
