"""The first attempt at a request by one statement: what `taking` reads is known here and only verified by it.

For a request that comes for the first time, in time, to a worker that knows its agent, and its conversation
unless that is new. Whatever else there is to be said about it, `taking` and `opening` find out: then nothing
was stored. A cancellation that this worker has not heard of by now interrupts the run when it is heard.
"""

from contracts.messages import ChatRequested
from conversations.aggregate.conversation import Conversation
from conversations.aggregate.turn import Begin, open_turn
from conversations.event_store.appending import Beginning
from orchestrator.agents.run_agent import facts_of
from orchestrator.opening.decide_request import begins
from orchestrator.opening.run_slots import is_fresh
from orchestrator.opening.taking import taken_up
from orchestrator.orchestrator_services import Parts
from orchestrator.run.run_clock import RunClock
from orchestrator.stages import FoundConversation, Opened, Received


async def begin_at_once(parts: Parts, received: Received, clock: RunClock | None) -> Opened | None:
    """Begin the run; None where that is not to be done like this. `clock`: of a run that began before.

    Raises DatabaseUnavailable, UnstorableEvent.
    """
    request = received.request
    agent = parts.agents.known(request.account_id, request.agent_id)
    conversation = _known(parts, request)
    if agent is None or conversation is None or clock is None or not _comes_first(received, clock):
        return None
    if parts.bus.traces.is_known_cancelled(request.trace_id) is not False:
        return None
    now, facts = clock.now(), facts_of(agent)
    opening = open_turn(conversation, request, facts, now=now, expired=False, worker=parts.leases.worker)
    if not isinstance(opening, Begin):
        return None
    change = parts.leases.taking(request.trace_id)
    with begins():
        begun = await parts.store.begin(conversation, opening.events, change, Beginning(now, agent.facts))
    if begun is None:
        return None
    # Not the time of the statement alone: this process may have been stopped since.
    lease = parts.leases.took(change, max(clock.now(), begun[1]))
    found = FoundConversation(conversation=conversation, first_in_line=True, agent=agent)
    taken = taken_up(parts, received.taken(lease, RunClock(lease.now), found))
    return parts.register.enter(taken.opened(begun[0], agent))


def _known(parts: Parts, request: ChatRequested) -> Conversation | None:
    if request.new_conversation:
        return Conversation(conversation_id=request.conversation_id)
    return parts.store.known(request.conversation_id)


def _comes_first(received: Received, clock: RunClock) -> bool:
    """Whether it has its slot still, is in time, and was in nobody's hands before."""
    return (
        received.request.attempt == 1
        and is_fresh(received, clock)
        and clock.seconds_since(received.request.deadline) <= 0
    )
