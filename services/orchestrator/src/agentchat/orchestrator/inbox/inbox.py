"""Handle deliveries from REQUESTS, from receipt to acknowledgement.

A request may be delivered any number of times: its lease keeps one worker on it, the conversation's version
rejects late appends, and a run that has ended is only announced again.
"""

from datetime import datetime

from opentelemetry.trace import SpanKind

from agentchat.bus.queue_consumer import QueueDelivery
from agentchat.contracts import subjects, wire
from agentchat.contracts.messages import ChatRequested, DeadLettered
from agentchat.conversations.aggregate.turn import AlreadyJoined, Rejected
from agentchat.conversations.errors import UnknownEvent, UnreadableEvent, VersionConflict, WaiterLost
from agentchat.net_guard.permitted_addresses import look_up_for
from agentchat.orchestrator.request_stages import (
    EndedRun,
    LeasedRequest,
    PausedRun,
    ReceivedRequest,
    StartedAttempt,
)
from agentchat.orchestrator.run.endings import announce_end, announce_joined, announce_pause, refuse, release
from agentchat.orchestrator.run.interruption import Interrupted, Interruption
from agentchat.orchestrator.run.run_attempt import run_attempt
from agentchat.orchestrator.run.run_clock import RunClock
from agentchat.orchestrator.services import WorkerServices
from agentchat.orchestrator.starting.run_slots import NoSlotYet
from agentchat.orchestrator.starting.take_lease import LeaseHeld, start_run_in_one_statement, take_lease
from agentchat.orchestrator.starting.wait_for_turn import start_run
from agentchat.runtime import failpoints, logs, telemetry
from agentchat.runtime.postgres import DatabaseUnavailable

_LOST_SECONDS = 2.0
_LEASED_SECONDS = (1.0, 1.0, 2.0, 2.0, 2.0)
_LEASED_LATER_SECONDS = 15.0
_EXPIRED_SECONDS = 3.0
_EXPIRED_DELIVERIES = 25
_SOON_DELIVERIES = 20


class Inbox:
    """Handler of the deliveries from REQUESTS, which `gateway.runs.start_run` publishes."""

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
            telemetry.open_span(
                "process chat.requests",
                context=telemetry.extract(delivery.headers),
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
        started = await start_run_in_one_statement(self._services, received, self._clock)
        await self._finish(started or await take_lease(self._services, received))
        failpoints.reach("orchestrator-before-ack")
        await received.delivery.ack()

    async def _finish(self, leased: LeasedRequest) -> None:
        self._clock = leased.clock
        outcome = leased if isinstance(leased, StartedAttempt) else await start_run(self._services, leased)
        match outcome:
            case Rejected():
                await refuse(self._services, leased, outcome)
            case AlreadyJoined():
                await announce_joined(self._services, leased, outcome.trace_id)
            case StartedAttempt():
                await run_attempt(self._services, outcome)
            case EndedRun():
                await announce_end(self._services, outcome)
            case PausedRun():
                await announce_pause(self._services, outcome)

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


async def put_back(services: WorkerServices, received: ReceivedRequest, error: Exception) -> None:
    """Put a request whose handling has raised back in the queue, after a delay that fits the error."""
    deliveries = received.delivery.attempt
    match error:
        case LeaseHeld():
            await received.delivery.nak(await _get_delay_while_leased(services, received))
        case Interrupted():
            seconds = 0.0 if error.reason == "shutdown" else _LOST_SECONDS
            await _put_back(services, received, error.reason, seconds)
        case NoSlotYet():
            await _put_back(services, received, "no_slot", _LOST_SECONDS)
        case VersionConflict() | WaiterLost():
            await _put_back(services, received, "lost", _LOST_SECONDS)
        case UnknownEvent():
            seconds = _get_delay_for_newer_release(services, deliveries)
            await _put_back(services, received, str(error), seconds)
        case DatabaseUnavailable() | UnreadableEvent():
            seconds = _get_delay_while_unavailable(services, deliveries)
            await _put_back(services, received, str(error), seconds)
        case _:
            logs.get_logger("inbox").error("request_broke", exc_info=error)
            await _put_back(services, received, "broke", _get_delay_while_unavailable(services, deliveries))


async def _put_back(services: WorkerServices, received: ReceivedRequest, reason: str, seconds: float) -> None:
    """Release the lease and have the request delivered again. The next worker continues from the log."""
    logs.get_logger("inbox").info("request_put_back", reason=reason)
    stage = services.register.stage_of(received)
    if isinstance(stage, LeasedRequest):
        await release(services, stage)
    await received.delivery.nak(seconds)


async def _get_delay_while_leased(services: WorkerServices, received: ReceivedRequest) -> float:
    """Return the seconds until a request whose lease is held is delivered again.

    Soon at first, since the holder may have died; then slowly enough that a ten-minute run takes fewer than
    the 50 deliveries of a message. A lease that has expired is retried soon, unless Postgres keeps failing.
    """
    deliveries = received.delivery.attempt
    if deliveries <= len(_LEASED_SECONDS):
        return _LEASED_SECONDS[deliveries - 1]
    try:
        held = await services.leases.has_live_lease(received.request.trace_id)
    except DatabaseUnavailable:
        held = True
    return _LEASED_LATER_SECONDS if held or deliveries > _EXPIRED_DELIVERIES else _EXPIRED_SECONDS


def _get_delay_for_newer_release(services: WorkerServices, deliveries: int) -> float:
    """Retry soon at first: during an upgrade, a worker of the newer release may get the next delivery."""
    seconds = services.timings.put_back_seconds
    return seconds[0] if deliveries <= _SOON_DELIVERIES else seconds[-1]


def _get_delay_while_unavailable(services: WorkerServices, deliveries: int) -> float:
    seconds = services.timings.put_back_seconds
    return seconds[min(deliveries, len(seconds)) - 1]
