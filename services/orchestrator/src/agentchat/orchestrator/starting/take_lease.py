"""Take the lease of a request, and load what is needed to decide about it at the same time.

If this worker has the agent and the conversation cached, one statement starts the run and verifies both.
"""

import asyncio
from typing import TypeVar

from agentchat.contracts.messages import ChatRequested
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.aggregate.turn import StartRun, open_turn
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store.append_statement import RunStart
from agentchat.conversations.leases.leases import Lease
from agentchat.directory.agent_config import AgentConfig
from agentchat.directory.prompt_variables import list_missing_variables
from agentchat.orchestrator.agent_loader import build_agent_facts
from agentchat.orchestrator.request_stages import FoundContext, LeasedRequest, ReceivedRequest, StartedAttempt
from agentchat.orchestrator.run.endings import release_lease
from agentchat.orchestrator.run.interruption import is_cancelled
from agentchat.orchestrator.run.run_clock import RunClock
from agentchat.orchestrator.services import WorkerServices
from agentchat.orchestrator.starting.run_slots import is_fresh
from agentchat.runtime import failpoints

T = TypeVar("T")


async def start_run_in_one_statement(
    services: WorkerServices, received: ReceivedRequest, clock: RunClock | None
) -> StartedAttempt | None:
    """Take the lease and append the run's first events in one statement (the fast path).

    Only for the first delivery of a request whose agent and conversation this worker has cached; the
    statement verifies both. Returns None, with nothing stored, if the fast path does not apply; `take_lease`
    then reads what is missing. A cancellation that arrives later interrupts the run. `clock` is Postgres'
    time as measured by the previous run, or None.

    Raises:
        DatabaseUnavailable, UnstorableEvent
    """
    request = received.request
    agent = services.agents.get_cached(request.account_id, request.agent_id)
    conversation = _get_cached_conversation(services, request)
    if agent is None or conversation is None or clock is None or not _is_first_and_in_time(received, clock):
        return None
    if services.bus.traces.is_known_cancelled(request.trace_id) is not False:
        return None
    if list_missing_variables(agent.variables, request.context) or request.client_tools:
        return None  # `decide_request` may refuse it
    now, facts = clock.now(), build_agent_facts(agent)
    opening = open_turn(conversation, request, facts, now=now, expired=False, worker=services.leases.worker)
    if not isinstance(opening, StartRun):
        return None
    change = services.leases.plan_acquisition(request.trace_id)
    failpoints.reach("orchestrator-before-begin")
    begun = await services.store.start_run(conversation, opening.events, change, RunStart(now, agent.facts))
    if begun is None:
        return None
    failpoints.reach("orchestrator-begun")
    # The statement's time may be too old: this process may have been suspended since.
    lease = services.leases.confirm_acquisition(change, max(clock.now(), begun[1]))
    found = FoundContext(conversation=conversation, first_in_line=True, agent=agent)
    leased = _keep_from_others(services, received.to_leased(lease, RunClock(lease.now), found))
    return services.register.enter(leased.to_started(begun[0], agent))


def _get_cached_conversation(services: WorkerServices, request: ChatRequested) -> Conversation | None:
    if request.new_conversation:
        return Conversation(conversation_id=request.conversation_id)
    return services.store.get_cached(request.conversation_id)


def _is_first_and_in_time(received: ReceivedRequest, clock: RunClock) -> bool:
    """Return True if the request asks for the current agent, still has its slot and is delivered first."""
    return (
        received.request.attempt == 1
        and received.request.agent_version is None
        and is_fresh(received, clock)
        and clock.seconds_since(received.request.deadline) <= 0
    )


class LeaseHeld(Exception):  # noqa: N818 - a state of things
    """Another worker, or another delivery to this one, holds the lease."""


async def take_lease(services: WorkerServices, received: ReceivedRequest) -> LeasedRequest:
    """Take the lease, and load the conversation and the agent at the same time.

    The conversation may be stale, since it is read before the lease is held: the append verifies its version.

    Raises:
        LeaseHeld, DatabaseUnavailable
    """
    request = received.request
    lease, agent, cancelled, read = await asyncio.gather(
        _lease_and_clock(services, request.trace_id),
        _load_agent(services, request),
        is_cancelled(services.bus.traces, request.trace_id),
        _load_conversation_and_place(services, received),
        return_exceptions=True,
    )
    held = _raise_or_return(lease)
    try:
        conversation, first_in_line = _raise_or_return(read)
        found = FoundContext(
            conversation=conversation, first_in_line=first_in_line, agent=_raise_or_return(agent)
        )
        if _raise_or_return(cancelled):
            received.interruption.interrupt("cancelled")
    except Exception:
        if held is not None:
            await release_lease(services, request.trace_id, held[0])
        raise
    if held is None:
        raise LeaseHeld(request.trace_id)
    return _keep_from_others(services, received.to_leased(*held, found))


def _keep_from_others(services: WorkerServices, leased: LeasedRequest) -> LeasedRequest:
    """Register the request as this worker's, and request the list of its agent's tools."""
    services.register.enter(leased)
    services.register.supersede(leased)
    failpoints.reach("orchestrator-leased")
    if leased.found.agent is not None:
        services.listings.fetch(leased.found.agent)
    return leased


async def _lease_and_clock(services: WorkerServices, trace_id: str) -> tuple[Lease, RunClock] | None:
    """Return the lease and a clock that starts with it, or None if the lease is held."""
    lease = await services.leases.acquire(trace_id)
    return None if lease is None else (lease, RunClock(lease.now))


async def _load_agent(services: WorkerServices, request: ChatRequested) -> AgentConfig | None:
    if request.agent_version is None:
        return await services.agents.load_current(
            request.account_id, request.agent_id, request.conversation_id
        )
    return await services.agents.load_version(request.account_id, request.agent_id, request.agent_version)


async def _load_conversation_and_place(
    services: WorkerServices, received: ReceivedRequest
) -> tuple[Conversation | UnreadableEvent, bool]:
    """Load the conversation, and True if no other request waits for it. A new one is empty."""
    request = received.request
    if request.new_conversation and request.attempt == 1 and received.delivery.attempt == 1:
        return Conversation(conversation_id=request.conversation_id), True
    return await asyncio.gather(
        _load_conversation(services, request.conversation_id),
        services.line.is_first(request.conversation_id, request.trace_id),
    )


async def _load_conversation(
    services: WorkerServices, conversation_id: str
) -> Conversation | UnreadableEvent:
    try:
        return await services.store.load(conversation_id)
    except UnreadableEvent as error:
        return error


def _raise_or_return(outcome: T | BaseException) -> T:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
