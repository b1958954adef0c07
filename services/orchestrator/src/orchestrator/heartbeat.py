"""What is done every few seconds for all that a worker holds: leases, places, slots, signs of life, load."""

import asyncio
from collections.abc import Awaitable, Callable

from contracts import frames
from contracts.timings import RENEW_AGAIN_SECONDS, RENEW_SECONDS
from conversations.errors import StoreUnavailable
from orchestrator.load import LOOK_SECONDS, report_load
from orchestrator.parts import Parts
from runtime import logs

_ALIVE_LOOK_SECONDS = 1.0


async def beat(parts: Parts) -> None:
    """For ever. Each kind has its own pace, so that one that waits holds up no other."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_every(RENEW_SECONDS, lambda: _renew_leases(parts), again=RENEW_AGAIN_SECONDS))
        group.create_task(_every(RENEW_SECONDS, lambda: _renew_places(parts)))
        group.create_task(_every(RENEW_SECONDS, lambda: _hold_slots(parts)))
        group.create_task(_every(RENEW_SECONDS, lambda: _keep_deliveries(parts)))
        group.create_task(_every(LOOK_SECONDS, lambda: report_load(parts)))
        group.create_task(parts.leases.keep_noting())
        group.create_task(_every(_ALIVE_LOOK_SECONDS, lambda: _say_alive(parts)))


async def _every(seconds: float, work: Callable[[], Awaitable[None]], *, again: float | None = None) -> None:
    """`again`: how soon after Postgres did not answer."""
    pause = seconds
    while True:
        await asyncio.sleep(pause)
        pause = seconds
        try:
            await work()
        except StoreUnavailable as error:
            logs.get_logger("heartbeat").warning("not_renewed", reason=str(error))
            pause = seconds if again is None else again
        except Exception:  # noqa: BLE001 - the outermost loop: without it every run here would be lost
            logs.get_logger("heartbeat").exception("beat_failed")


async def _renew_leases(parts: Parts) -> None:
    """What another worker has taken stops without a further word."""
    parts.assignments.lose(await parts.leases.renew())


async def _renew_places(parts: Parts) -> None:
    await parts.line.renew()


async def _hold_slots(parts: Parts) -> None:
    await parts.limiter.hold(
        [
            (held.request.account_id, held.trace_id)
            for held in parts.assignments
            if held.lease is not None and held.holds_slot
        ]
    )


async def _keep_deliveries(parts: Parts) -> None:
    """The bus does so itself while a handler runs."""
    for held in parts.assignments:
        if held.detached:
            await held.delivery.in_progress()


async def _say_alive(parts: Parts) -> None:
    parts.assignments.give_up()
    for held in parts.assignments:
        if held.lease is None or not held.lease.is_live:
            continue
        if held.channel is not None:
            await held.channel.say_alive()
        elif held.queued:
            await parts.bus.publish_frame(held.trace_id, frames.Alive(seq=0, attempt=0))
