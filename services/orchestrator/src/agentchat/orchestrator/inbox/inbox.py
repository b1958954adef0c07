"""Handle deliveries from REQUESTS, from receipt to acknowledgement.

A request may be delivered any number of times: its lease keeps one worker on it, the conversation's version
rejects late appends, and a run that has ended is only announced again.

The functions are in the order in which they are called: receive the request, start its run at once if this
worker knows the agent and the conversation, or else take its lease and start it in turn; run the attempt.
"""

import asyncio
from datetime import datetime
from typing import TypeVar

from opentelemetry.trace import SpanKind

from agentchat.bus.queue_consumer import QueueDelivery
from agentchat.contracts import frames, subjects, wire
from agentchat.contracts.messages import ChatRequested, DeadLettered
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.aggregate.opening_rules import (
    AlreadyEnded,
    AlreadyJoined,
    AlreadyPaused,
    Rejected,
    StartRun,
    decide_opening,
)
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store.append_statement import RunStart
from agentchat.conversations.leases.leases import Lease
from agentchat.directory.agent_config import AgentConfig
from agentchat.directory.prompt_variables import list_missing_variables
from agentchat.net_guard.permitted_addresses import look_up_for
from agentchat.orchestrator.agent_loader import build_agent_facts
from agentchat.orchestrator.inbox.put_back import LeaseHeld, put_back
from agentchat.orchestrator.request_stages import FoundContext, LeasedRequest, ReceivedRequest, StartedAttempt
from agentchat.orchestrator.run.endings import release_lease, release_slot_and_lease
from agentchat.orchestrator.run.interruption import Interrupted, Interruption, is_cancelled
from agentchat.orchestrator.run.run_attempt import announce_end, announce_pause, run_attempt
from agentchat.orchestrator.run.run_clock import RunClock
from agentchat.orchestrator.services import WorkerServices
from agentchat.orchestrator.starting.run_slots import is_fresh
from agentchat.orchestrator.starting.wait_for_turn import publish_steered, start_in_turn
from agentchat.runtime import failpoints, logs, tracing

T = TypeVar("T")


class Inbox:
    """Handler of what `gateway.runs.submit_request.Submission._publish` publishes to REQUESTS."""

    def __init__(self, services: WorkerServices) -> None:
        self._services = services
        self._clock: RunClock | None = None  # of the latest run

    async def handle(self, delivery: QueueDelivery) -> None:
        """Handle one delivery to its end. A request that waits for its turn frees its slot of the queue."""
        try:
            request = _decode_request(delivery.data)
        except ValueError as error:
            await self._move_to_dead_letters(delivery, str(error))
            return
        with (
            tracing.open_span(
                "process chat.requests",
                context=tracing.extract(delivery.headers),
                kind=SpanKind.CONSUMER,
                attributes={"messaging.system": "nats", "messaging.operation.type": "process"},
            ),
            logs.bind_context(
                trace_id=request.trace_id,
                conversation_id=request.conversation_id,
                account_id=request.account_id,
            ),
            look_up_for(request.account_id),
        ):
            received = ReceivedRequest(request=request, delivery=delivery, interruption=Interruption())
            self._services.register.enter(received)
            try:
                await self._work(received)
            except Exception as error:  # noqa: BLE001 - the outermost frame of a request
                await put_back(self._services, received, error)
            finally:
                self._services.register.remove(received)

    async def _work(self, received: ReceivedRequest) -> None:
        services = self._services
        started = await start_at_once(services, received, self._clock)
        leased = started or await take_lease(services, received)
        self._clock = leased.clock
        outcome = started or await start_in_turn(services, leased)
        match outcome:
            case Rejected():
                await _refuse(services, leased, outcome)
            case AlreadyJoined():
                await _announce_joined(services, leased, outcome.trace_id)
            case StartedAttempt():
                await run_attempt(services, outcome)
            case AlreadyEnded():
                await announce_end(services, leased, outcome.run)
            case AlreadyPaused():
                await announce_pause(services, leased)
        failpoints.reach("orchestrator-before-ack")
        await received.delivery.ack()

    async def _move_to_dead_letters(self, delivery: QueueDelivery, reason: str) -> None:
        logs.get_logger("inbox").error("request_undecodable", reason=reason)
        payload = delivery.data.decode("utf-8", "replace")
        await self._services.bus.queues.publish_dead_letter(
            DeadLettered(stream=subjects.REQUESTS, subject=delivery.subject, reason=reason, payload=payload)
        )
        await delivery.terminate()


def _decode_request(data: bytes) -> ChatRequested:
    """Decode a request. Raises ValueError for invalid JSON, another shape or an invalid time."""
    request = wire.decode_message(ChatRequested, data)
    for at in (request.requested_at, request.deadline):
        datetime.fromisoformat(at)
    return request


async def start_at_once(
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
    opening = decide_opening(
        conversation, request, facts, now=now, expired=False, worker=services.leases.worker
    )
    if not isinstance(opening, StartRun):
        return None
    change = services.leases.plan_acquisition(request.trace_id)
    failpoints.reach("orchestrator-before-begin")
    begun = await services.store.append_start(
        conversation, opening.events, change, RunStart(now, agent.facts)
    )
    if begun is None:
        return None
    failpoints.reach("orchestrator-begun")
    # The statement's time may be too old: this process may have been suspended since.
    lease = services.leases.confirm_acquisition(change, max(clock.now(), begun[1]))
    found = FoundContext(conversation=conversation, first_in_line=True, agent=agent)
    leased = _register_leased(services, received.to_leased(lease, RunClock(lease.now), found))
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
    return _register_leased(services, received.to_leased(*held, found))


def _register_leased(services: WorkerServices, leased: LeasedRequest) -> LeasedRequest:
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


async def _refuse(services: WorkerServices, leased: LeasedRequest, refusal: Rejected) -> None:
    """Refuse a request, of which nothing was or will be appended.

    Raises:
        Interrupted: Another worker may have the request.
    """
    if not await leased.lease.wait_until_live():
        raise Interrupted("lost")
    request = leased.request
    logs.get_logger("inbox").info("request_refused", code=refusal.code)
    # First, since a redelivered request might start after its caller was refused.
    await leased.delivery.ack(at_once=True)
    await release_slot_and_lease(services, leased)
    refused = frames.Refused(
        seq=0,
        attempt=request.attempt,
        code=refusal.code,
        message=refusal.message,
        approvals=refusal.approvals,
        running_trace_id=refusal.running_trace_id,
    )
    await services.bus.traces.publish_frame(request.trace_id, refused)


async def _announce_joined(services: WorkerServices, leased: LeasedRequest, trace_id: str) -> None:
    """Publish that the request's message has joined the run `trace_id`, and release all held for it."""
    await release_slot_and_lease(services, leased)
    await publish_steered(services, leased, trace_id)
