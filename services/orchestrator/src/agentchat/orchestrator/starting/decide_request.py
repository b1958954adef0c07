"""Decide what a request leads to, by the rules of `conversations.aggregate.opening_rules`, and append it."""

from msgspec.structs import replace

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import events, frames
from agentchat.contracts.messages import ChatRequested
from agentchat.contracts.timings import LINE_SECONDS, LINE_SLACK_SECONDS
from agentchat.contracts.values import AgentFacts
from agentchat.conversations.aggregate.conversation import Conversation, Run, copy_agent_facts
from agentchat.conversations.aggregate.opening_rules import (
    AlreadyEnded,
    AlreadyJoined,
    AlreadyPaused,
    GiveUpRun,
    MustWait,
    Opening,
    ReceiveMessage,
    Rejected,
    ResumeRun,
    StartRun,
    SupersedeRun,
    decide_opening,
)
from agentchat.conversations.aggregate.run_ends import cancel, fail, save_interrupted_reply
from agentchat.conversations.errors import VersionConflict
from agentchat.directory.agent_config import AgentConfig
from agentchat.directory.prompt_variables import list_missing_variables
from agentchat.orchestrator.agent_loader import build_agent_facts
from agentchat.orchestrator.request_stages import LeasedRequest, StartedAttempt
from agentchat.orchestrator.run.endings import CANCELLED, publish_end, read_streamed_text
from agentchat.orchestrator.run.interrupted_text import read_sent_output
from agentchat.orchestrator.run.run_log import get_run
from agentchat.orchestrator.services import WorkerServices
from agentchat.orchestrator.starting.run_slots import NoSlot, take_slot, take_slot_again
from agentchat.orchestrator.tools.tool_list_cache import ToolsUnavailable
from agentchat.runtime import failpoints

_NO_AGENT = "The agent does not exist."
_MISSING = "context: The agent needs values for: {}."

Outcome = StartedAttempt | AlreadyEnded | AlreadyPaused | AlreadyJoined | Rejected
"""The outcome of a request that need not wait."""


async def decide_request(
    services: WorkerServices,
    leased: LeasedRequest,
    conversation: Conversation,
    *,
    first_in_line: bool,
    waited: bool = False,
) -> Outcome | MustWait | NoSlot:
    """Decide what a request leads to, append the events of the decision, and act on them.

    `waited`: the request is in line, its caller was told so, and it holds none of its account's slots. If
    another writer is faster, the append fails and the decision is repeated.

    Raises:
        NoSlotYet, DatabaseUnavailable, UnreadableEvent
    """
    while True:
        run = conversation.run(leased.trace_id)
        agent = await _load_agent(services, leased, run)
        opening = await _decide_opening(services, leased, conversation, agent, waited=waited)
        outcome = await _decide_without_append(
            services, leased, opening, run, first_in_line=first_in_line, waited=waited
        )
        if outcome is not None:
            return outcome
        try:
            new = await _list_events(services, leased, opening, run)
            failpoints.reach("orchestrator-before-begin")
            appended = await services.store.append(conversation, new)
            failpoints.reach("orchestrator-begun")
        except VersionConflict:
            conversation = await services.store.load(leased.request.conversation_id)
            continue
        if isinstance(opening, ReceiveMessage):
            return MustWait(opening.trace_id, for_save=True)
        return await _enter_result(services, leased, opening, appended, agent)


async def _decide_without_append(
    services: WorkerServices,
    leased: LeasedRequest,
    opening: Opening,
    run: Run | None,
    *,
    first_in_line: bool,
    waited: bool,
) -> Outcome | MustWait | NoSlot | None:
    """Return the outcome if nothing is to be appended, which includes a missing slot, else None.

    Raises:
        NoSlotYet, DatabaseUnavailable
    """
    match opening:
        case Rejected() | AlreadyJoined() | AlreadyEnded() | AlreadyPaused():
            return opening
        case MustWait():
            return opening
        case ReceiveMessage() if not waited:
            return MustWait(opening.trace_id, for_save=True)  # once it has a place in line
        case StartRun() | SupersedeRun() if not first_in_line:
            return MustWait(trace_id="")  # for earlier requests, not for a run
        case StartRun() | SupersedeRun():
            return await take_slot(services, leased, waited=waited)
        case ResumeRun() if run is not None and (run.pending or run.is_unpaused):
            await take_slot_again(services, leased)
    return None


async def _list_events(
    services: WorkerServices, leased: LeasedRequest, opening: Opening, run: Run | None
) -> tuple[events.Event, ...]:
    match opening:
        case GiveUpRun():
            assert run is not None, "it has had its attempts"
            streamed = await read_streamed_text(services, run, leased.clock.now())
            return save_interrupted_reply(run, streamed, opening.events)
        case StartRun() | SupersedeRun() | ResumeRun() | ReceiveMessage():
            return tuple(opening.events)
        case _:
            raise AssertionError("nothing is appended for these")


async def _enter_result(
    services: WorkerServices,
    leased: LeasedRequest,
    opening: Opening,
    appended: Conversation,
    agent: AgentConfig | None,
) -> StartedAttempt | AlreadyEnded:
    """Register the attempt that the append started, or return the run that it ended."""
    if isinstance(opening, GiveUpRun):
        return AlreadyEnded(run=get_run(appended, leased.trace_id))
    if isinstance(opening, SupersedeRun):
        superseded = get_run(appended, opening.trace_id)
        await publish_end(services, leased.request.account_id, superseded)
    assert agent is not None, "a run begins with its agent"
    return services.register.enter(leased.to_started(appended, agent))


async def _load_agent(services: WorkerServices, leased: LeasedRequest, run: Run | None) -> AgentConfig | None:
    """Return the agent at the version that the run started with."""
    agent = leased.found.agent
    if run is None or run.state != "running" or (agent is not None and agent.version == run.agent_version):
        return agent
    return await services.agents.load_version(leased.request.account_id, run.agent_id, run.agent_version)


async def _decide_opening(
    services: WorkerServices,
    leased: LeasedRequest,
    conversation: Conversation,
    agent: AgentConfig | None,
    *,
    waited: bool,
) -> Opening:
    request, now = leased.request, leased.clock.now()
    if request.on_busy is None and agent is not None:
        request = replace(request, on_busy=agent.on_busy)
    run = conversation.run(request.trace_id)
    expired = run is None and await _has_expired(services, leased, waited=waited)
    if run is not None:
        if run.state == "running" and agent is None:
            return GiveUpRun(events=fail(run, "agent_not_found", _NO_AGENT, now))
        if run.pending and leased.interruption.reason == "cancelled":
            return GiveUpRun(events=cancel(run, now))
        facts = AgentFacts(**copy_agent_facts(run))
    elif leased.interruption.reason == "cancelled":
        return Rejected(code="cancelled", message=CANCELLED)
    elif agent is None:
        return Rejected(code="agent_not_found", message=_NO_AGENT)
    elif missing := list_missing_variables(agent.variables, request.context):
        return Rejected(code="invalid_request", message=_MISSING.format(", ".join(missing)))
    elif problem := await _find_problem_of_client_tools(services, request, agent):
        return Rejected(code="invalid_request", message=f"client_tools: {problem}")
    else:
        facts = build_agent_facts(agent)
    return decide_opening(
        conversation,
        request,
        facts,
        now=now,
        expired=expired,
        worker=services.leases.worker,
        heard=await _measure_streamed_text(services, run),
    )


async def _find_problem_of_client_tools(
    services: WorkerServices, request: ChatRequested, agent: AgentConfig
) -> str:
    """Return why the agent cannot have the client's tools; "" if it can."""
    if not request.client_tools:
        return ""
    if agent.client_tools == "refused":
        return "The agent takes no tools of its clients."
    try:
        own = {spec.name for spec in await services.listings.get_tools(agent)}
    except ToolsUnavailable:  # the run will say so
        return ""
    taken = [tool.name for tool in request.client_tools if tool.name in own]
    return f"The agent has tools of these names: {', '.join(taken)}." if taken else ""


async def _measure_streamed_text(services: WorkerServices, run: Run | None) -> int:
    """Count the code points that readers of a running run have received. Without NATS, those in the log."""
    if run is None or run.state != "running":
        return 0
    try:
        kept = await services.bus.traces.read_frames(run.trace_id)
    except BusUnavailable:
        kept = []
    return len(run.text) + len(read_sent_output(run, kept).text)


async def _has_expired(services: WorkerServices, leased: LeasedRequest, *, waited: bool) -> bool:
    """Return True if the deadline has passed, and also the time in line if the caller was told to wait."""
    asked_since = leased.clock.seconds_since(leased.request.requested_at)
    if asked_since > LINE_SECONDS + LINE_SLACK_SECONDS:
        return True
    if waited or leased.clock.seconds_since(leased.request.deadline) <= 0:
        return False
    try:
        kept = await services.bus.traces.read_frames(leased.trace_id)
    except BusUnavailable:
        return True
    return not any(isinstance(frame, frames.Queued) for frame in kept)
