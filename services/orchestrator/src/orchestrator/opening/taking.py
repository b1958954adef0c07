"""The lease of a request, and next to it all that is needed to decide about it, read at once."""

import asyncio
from typing import TypeVar

from conversations.aggregate.conversation import Conversation
from conversations.errors import UnreadableEvent
from conversations.leases.leases import Lease
from orchestrator.orchestrator_services import Parts
from orchestrator.run.cancelled import is_cancelled
from orchestrator.run.endings import release_lease
from orchestrator.run.run_clock import RunClock
from orchestrator.stages import FoundConversation, Received, Taken
from runtime import failpoints

T = TypeVar("T")


class LeaseHeld(Exception):  # noqa: N818 - a state of things
    """Another worker, or another delivery here, has the lease."""


async def take(parts: Parts, received: Received) -> Taken:
    """Take the lease, and read what is to be decided upon.

    What is read before the lease is had may be old: the conversation's version then says so. Raises
    LeaseHeld, DatabaseUnavailable.
    """
    request = received.request
    lease, agent, cancelled, read = await asyncio.gather(
        _lease(parts, request.trace_id),
        parts.agents.current(request.account_id, request.agent_id),
        is_cancelled(parts, request.trace_id),
        _read(parts, received),
        return_exceptions=True,
    )
    held = _had(lease)
    try:
        conversation, first_in_line = _had(read)
        found = FoundConversation(conversation=conversation, first_in_line=first_in_line, agent=_had(agent))
        if _had(cancelled):
            received.interruption.interrupt("cancelled")
    except Exception:
        if held is not None:
            await release_lease(parts, request.trace_id, held[0])
        raise
    if held is None:
        raise LeaseHeld(request.trace_id)
    return taken_up(parts, received.taken(*held, found))


def taken_up(parts: Parts, taken: Taken) -> Taken:
    """From now on the request is kept from other workers, and its agent's tools are asked for."""
    parts.register.enter(taken)
    parts.register.supersede(taken)
    failpoints.reach("orchestrator-leased")
    if taken.found.agent is not None:
        parts.listings.fetch(taken.found.agent)
    return taken


async def _lease(parts: Parts, trace_id: str) -> tuple[Lease, RunClock] | None:
    """The lease, and the clock that begins with it; None while anybody holds it."""
    lease = await parts.leases.acquire(trace_id)
    return None if lease is None else (lease, RunClock(lease.now))


async def _read(parts: Parts, received: Received) -> tuple[Conversation | UnreadableEvent, bool]:
    """The conversation, and whether nobody waits for it. A new one, the first time, is empty."""
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


def _had(outcome: T | BaseException) -> T:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
