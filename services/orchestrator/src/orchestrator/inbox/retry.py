"""A request that this worker cannot answer is put back, for another worker or for later."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from conversations.errors import TooMuchLoaded, UnknownEvent, UnreadableEvent, VersionConflict, WaiterLost
from orchestrator.opening.run_slots import NoSlotYet
from orchestrator.opening.taking import LeaseHeld
from orchestrator.orchestrator_services import Parts
from orchestrator.run.endings import release
from orchestrator.run.interruption import Interrupted
from orchestrator.stages import Received, Taken
from runtime import logs
from runtime.postgres import DatabaseUnavailable

_LOST_SECONDS = 2.0
_LEASED_SECONDS = (1.0, 1.0, 2.0, 2.0, 2.0)
_LEASED_LATER_SECONDS = 15.0
_EXPIRED_SECONDS = 3.0
_EXPIRED_DELIVERIES = 25
_SOON_DELIVERIES = 20


@asynccontextmanager
async def putting_back(parts: Parts, received: Received) -> AsyncIterator[None]:
    """Have the request in hand while the block runs; what the block raises puts it back."""
    deliveries = received.delivery.attempt
    parts.register.enter(received)
    try:
        yield
    except LeaseHeld:
        await received.delivery.nak(await _leased_delay(parts, received))
    except Interrupted as interrupted:
        seconds = 0.0 if interrupted.reason == "shutdown" else _LOST_SECONDS
        await _put_back(parts, received, interrupted.reason, seconds)
    except NoSlotYet:
        await _put_back(parts, received, "no_slot", _LOST_SECONDS)
    except TooMuchLoaded as error:
        await _put_back(parts, received, str(error), _LOST_SECONDS)
    except (VersionConflict, WaiterLost):
        await _put_back(parts, received, "lost", _LOST_SECONDS)
    except UnknownEvent as error:
        await _put_back(parts, received, str(error), _unknown_delay(parts, deliveries))
    except (DatabaseUnavailable, UnreadableEvent) as error:
        await _put_back(parts, received, str(error), _away_delay(parts, deliveries))
    except Exception:  # noqa: BLE001 - the outermost frame of a request
        logs.get_logger("inbox").exception("request_broke")
        await _put_back(parts, received, "broke", _away_delay(parts, deliveries))
    finally:
        parts.register.remove(received)


async def _put_back(parts: Parts, received: Received, reason: str, seconds: float) -> None:
    """Not another frame: whoever takes it next goes on from the log."""
    logs.get_logger("inbox").info("request_put_back", reason=reason)
    stage = parts.register.stage_of(received)
    if isinstance(stage, Taken):
        await release(parts, stage)
    await received.delivery.nak(seconds)


async def _leased_delay(parts: Parts, received: Received) -> float:
    """Seconds until a request is worth looking at whose lease is held: soon at first, as its holder may have
    died; then so that a run's ten minutes take fewer than the 50 deliveries that a message has.

    A lease that has expired waits for Postgres to have been there for long (`availability`): that is soon,
    unless it goes away again and again.
    """
    deliveries = received.delivery.attempt
    if deliveries <= len(_LEASED_SECONDS):
        return _LEASED_SECONDS[deliveries - 1]
    try:
        held = await parts.leases.alive(received.request.trace_id)
    except DatabaseUnavailable:
        held = True
    return _LEASED_LATER_SECONDS if held or deliveries > _EXPIRED_DELIVERIES else _EXPIRED_SECONDS


def _unknown_delay(parts: Parts, deliveries: int) -> float:
    """Soon at first: while a newer release replaces this one, one of its workers takes the next delivery."""
    seconds = parts.timings.put_back_seconds
    return seconds[0] if deliveries <= _SOON_DELIVERIES else seconds[-1]


def _away_delay(parts: Parts, deliveries: int) -> float:
    seconds = parts.timings.put_back_seconds
    return seconds[min(deliveries, len(seconds)) - 1]
