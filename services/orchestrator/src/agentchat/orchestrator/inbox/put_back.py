"""Put requests back in the queue, after a delay that fits the reason."""

from agentchat.conversations.errors import UnknownEvent, UnreadableEvent, VersionConflict, WaiterLost
from agentchat.orchestrator.request_stages import LeasedRequest, ReceivedRequest
from agentchat.orchestrator.run.endings import release_lease
from agentchat.orchestrator.run.interruption import Interrupted
from agentchat.orchestrator.services import WorkerServices
from agentchat.orchestrator.starting.run_slots import NoSlotYet
from agentchat.runtime import logs
from agentchat.runtime.postgres import DatabaseUnavailable

_LOST_SECONDS = 2.0
_LEASED_SECONDS = (1.0, 1.0, 2.0, 2.0, 2.0)
_LEASED_LATER_SECONDS = 15.0
_EXPIRED_SECONDS = 3.0
_EXPIRED_DELIVERIES = 25
_SOON_DELIVERIES = 20


class LeaseHeld(Exception):  # noqa: N818 - a state of things
    """Another worker, or another delivery to this one, holds the lease."""


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
    """Release all that is held for the request, and have the next worker continue from the log."""
    logs.get_logger("inbox").info("request_put_back", reason=reason)
    stage = services.register.stage_of(received)
    if isinstance(stage, LeasedRequest):
        services.register.enter(stage.to_released())
        await release_lease(services, stage.trace_id, stage.lease)
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
