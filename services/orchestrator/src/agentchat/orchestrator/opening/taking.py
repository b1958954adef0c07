"""The lease of a request, and next to it all that is needed to decide about it, read at once.

Or, where this worker knows that already, the first attempt by one statement that verifies it.
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
from agentchat.orchestrator.opening.decide_request import begins
from agentchat.orchestrator.opening.run_slots import is_fresh
from agentchat.orchestrator.orchestrator_services import Parts
from agentchat.orchestrator.run.endings import release_lease
from agentchat.orchestrator.run.interruption import is_cancelled
from agentchat.orchestrator.run.run_clock import RunClock
from agentchat.orchestrator.run_agent import facts_of
from agentchat.orchestrator.stages import FoundConversation, Opened, Received, Taken
from agentchat.runtime import failpoints

T = TypeVar("T")


async def start_run_in_one_statement(
    parts: Parts, received: Received, clock: RunClock | None
) -> Opened | None:
    """Take the lease and append the run's first events in one statement (the fast path).

    Only for the first delivery of a request whose agent and conversation this worker has cached; the
    statement verifies both. Returns None, with nothing stored, if the fast path does not apply; `take_lease`
    then reads what is missing. A cancellation that comes later interrupts the run.

    Args:
        clock: Postgres' time as measured by the previous run, or None if it has not been measured.

    Raises:
        DatabaseUnavailable, UnstorableEvent
    """
    request = received.request
    agent = parts.agents.known(request.account_id, request.agent_id)
    conversation = _cached_conversation(parts, request)
    if agent is None or conversation is None or clock is None or not _is_first_and_in_time(received, clock):
        return None
    if parts.bus.traces.is_known_cancelled(request.trace_id) is not False:
        return None
    now, facts = clock.now(), facts_of(agent)
    opening = open_turn(conversation, request, facts, now=now, expired=False, worker=parts.leases.worker)
    if not isinstance(opening, StartRun):
        return None
    change = parts.leases.plan_acquisition(request.trace_id)
    with begins():
        begun = await parts.store.start_run(conversation, opening.events, change, RunStart(now, agent.facts))
    if begun is None:
        return None
    # Not the time of the statement alone: this process may have been stopped since.
    lease = parts.leases.confirm_acquisition(change, max(clock.now(), begun[1]))
    found = FoundConversation(conversation=conversation, first_in_line=True, agent=agent)
    taken = _keep_from_others(parts, received.taken(lease, RunClock(lease.now), found))
    return parts.register.enter(taken.opened(begun[0], agent))


def _cached_conversation(parts: Parts, request: ChatRequested) -> Conversation | None:
    if request.new_conversation:
        return Conversation(conversation_id=request.conversation_id)
    return parts.store.get_cached(request.conversation_id)


def _is_first_and_in_time(received: Received, clock: RunClock) -> bool:
    """Return True if the request asks for the current agent, still has its slot and is delivered first."""
    return (
        received.request.attempt == 1
        and received.request.agent_version is None
        and is_fresh(received, clock)
        and clock.seconds_since(received.request.deadline) <= 0
    )


class LeaseHeld(Exception):  # noqa: N818 - a state of things
    """Another worker, or another delivery here, has the lease."""


async def take_lease(parts: Parts, received: Received) -> Taken:
    """Take the lease, and load the conversation and the agent next to it.

    What is read before the lease is had may be old: the conversation's version then says so at the append.

    Raises:
        LeaseHeld, DatabaseUnavailable
    """
    request = received.request
    lease, agent, cancelled, read = await asyncio.gather(
        _lease_and_clock(parts, request.trace_id),
        _agent(parts, request),
        is_cancelled(parts.bus.traces, request.trace_id),
        _conversation_and_place(parts, received),
        return_exceptions=True,
    )
    held = _result_or_raise(lease)
    try:
        conversation, first_in_line = _result_or_raise(read)
        found = FoundConversation(
            conversation=conversation, first_in_line=first_in_line, agent=_result_or_raise(agent)
        )
        if _result_or_raise(cancelled):
            received.interruption.interrupt("cancelled")
    except Exception:
        if held is not None:
            await release_lease(parts, request.trace_id, held[0])
        raise
    if held is None:
        raise LeaseHeld(request.trace_id)
    return _keep_from_others(parts, received.taken(*held, found))


def _keep_from_others(parts: Parts, taken: Taken) -> Taken:
    """Register the request as this worker's, and have its agent's tools listed."""
    parts.register.enter(taken)
    parts.register.supersede(taken)
    failpoints.reach("orchestrator-leased")
    if taken.found.agent is not None:
        parts.listings.fetch(taken.found.agent)
    return taken


async def _lease_and_clock(parts: Parts, trace_id: str) -> tuple[Lease, RunClock] | None:
    """Return the lease, and the clock that begins with it; None while anybody holds it."""
    lease = await parts.leases.acquire(trace_id)
    return None if lease is None else (lease, RunClock(lease.now))


async def _agent(parts: Parts, request: ChatRequested) -> AgentConfig | None:
    if request.agent_version is None:
        return await parts.agents.current(request.account_id, request.agent_id, request.conversation_id)
    return await parts.agents.at_version(request.account_id, request.agent_id, request.agent_version)


async def _conversation_and_place(
    parts: Parts, received: Received
) -> tuple[Conversation | UnreadableEvent, bool]:
    """Return the conversation, and True if no other request waits for it. A new one is empty."""
    request = received.request
    if request.new_conversation and request.attempt == 1 and received.delivery.attempt == 1:
        return Conversation(conversation_id=request.conversation_id), True
    return await asyncio.gather(
        _conversation(parts, request.conversation_id),
        parts.line.is_first(request.conversation_id, request.trace_id),
    )


async def _conversation(parts: Parts, conversation_id: str) -> Conversation | UnreadableEvent:
    try:
        return await parts.store.load(conversation_id)
    except UnreadableEvent as error:
        return error


def _result_or_raise(outcome: T | BaseException) -> T:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
