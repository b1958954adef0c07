"""What becomes of a request now: decided by the rules of a turn, with its events in the log."""

from collections.abc import Iterator
from contextlib import contextmanager

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import events, frames
from agentchat.contracts.events import AgentFacts
from agentchat.contracts.timings import LINE_SECONDS, LINE_SLACK_SECONDS
from agentchat.conversations.aggregate import turn
from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.aggregate.turn import open_turn
from agentchat.conversations.errors import VersionConflict
from agentchat.directory.agent_config import AgentConfig
from agentchat.orchestrator.opening.run_slots import NoSlot, take_slot, take_slot_again
from agentchat.orchestrator.orchestrator_services import Parts
from agentchat.orchestrator.run.endings import CANCELLED, heard, publish_end
from agentchat.orchestrator.run.interrupted_text import already_sent
from agentchat.orchestrator.run.run_log import run_of
from agentchat.orchestrator.run_agent import facts_of
from agentchat.orchestrator.stages import EndedStage, Opened, PausedStage, Taken
from agentchat.runtime import failpoints

_NO_AGENT = "There is no such agent."


async def decide(
    parts: Parts, taken: Taken, conversation: Conversation, *, first_in_line: bool, waited: bool = False
) -> Opened | EndedStage | PausedStage | turn.Rejected | turn.MustWait | NoSlot:
    """Decide what becomes of a request, append the events of the decision, and act on them.

    `waited`: the request is in line, its caller was told so, and it has no slot of the account's. Another
    writer of the conversation makes the append fail; then it is decided anew.

    Raises NoSlotYet, DatabaseUnavailable, UnreadableEvent.
    """
    while True:
        run = conversation.run(taken.trace_id)
        agent = await _agent_of(parts, taken, run)
        opening = await _opening(parts, taken, conversation, agent, waited=waited)
        outcome = await _outcome_without_events(
            parts, taken, opening, run, first_in_line=first_in_line, waited=waited
        )
        if outcome is not None:
            return outcome
        try:
            with begins():
                appended = await parts.store.append(
                    conversation, await _events_of(parts, taken, opening, run)
                )
        except VersionConflict:
            conversation = await parts.store.load(taken.request.conversation_id)
            continue
        return await _after_append(parts, taken, opening, appended, agent)


async def _outcome_without_events(
    parts: Parts, taken: Taken, opening: turn.Opening, run: Run | None, *, first_in_line: bool, waited: bool
) -> EndedStage | PausedStage | turn.Rejected | turn.MustWait | NoSlot | None:
    """Return the outcome if nothing is to be appended, also because there is no slot; else None.

    Raises NoSlotYet, DatabaseUnavailable.
    """
    match opening:
        case turn.Rejected() | turn.MustWait():
            return opening
        case turn.AlreadyEnded():
            return taken.ended(opening.run)
        case turn.AlreadyPaused():
            return taken.paused()
        case turn.StartRun() | turn.SupersedeRun() if not first_in_line:
            return turn.MustWait(trace_id="")  # for those who came earlier, and for no run
        case turn.StartRun() | turn.SupersedeRun():
            return await take_slot(parts, taken, waited=waited)
        case turn.ResumeRun() if run is not None and (run.pending or run.is_unpaused):
            await take_slot_again(parts, taken)
    return None


async def _events_of(
    parts: Parts, taken: Taken, opening: turn.Opening, run: Run | None
) -> tuple[events.Event, ...]:
    match opening:
        case turn.GiveUpRun():
            assert run is not None, "it has had its attempts"
            return (*await heard(parts, run, taken.clock.now()), *opening.events)
        case turn.StartRun() | turn.SupersedeRun() | turn.ResumeRun():
            return tuple(opening.events)
        case turn.Rejected() | turn.MustWait() | turn.AlreadyEnded() | turn.AlreadyPaused():
            raise AssertionError("nothing is appended for these")


async def _after_append(
    parts: Parts, taken: Taken, opening: turn.Opening, appended: Conversation, agent: AgentConfig | None
) -> Opened | EndedStage:
    """Enter the run that the append has begun, or return the one that it has ended."""
    if isinstance(opening, turn.GiveUpRun):
        return taken.ended(run_of(appended, taken.trace_id))
    if isinstance(opening, turn.SupersedeRun):
        superseded = run_of(appended, opening.trace_id)
        await publish_end(parts, taken.request.account_id, superseded)
    assert agent is not None, "a run begins with its agent"
    return parts.register.enter(taken.opened(appended, agent))


@contextmanager
def begins() -> Iterator[None]:
    """Mark the append by which a run begins, for tests that end the process there."""
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
            return turn.GiveUpRun(events=turn.fail(run, "agent_not_found", _NO_AGENT, now))
        if run.pending and taken.interruption.reason == "cancelled":
            return turn.GiveUpRun(events=turn.cancel(run, now))
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
