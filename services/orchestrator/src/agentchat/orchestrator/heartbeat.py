"""What is done every few seconds for all that a worker holds: leases, places, slots, signs of life, load."""

import asyncio
from functools import partial

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import frames
from agentchat.orchestrator.orchestrator_services import Parts
from agentchat.orchestrator.stages import Opened, RunningStage, Taken, WaitingStage
from agentchat.runtime import logs, metrics
from agentchat.runtime.following import repeat
from agentchat.runtime.postgres import DatabaseUnavailable

_WAIT_SECONDS = 1.0
"""A request that was stored just now has not waited."""


async def report_load(parts: Parts) -> None:
    """To be called every few seconds. A bus that does not answer leaves the old figures of the queue."""
    used = parts.register.slots_used
    try:
        backlog = await parts.bus.queues.backlog("REQUESTS")
    except BusUnavailable:
        return
    metrics.WAITING.labels(worker=parts.name).set(backlog.waiting)
    metrics.OLDEST_WAITING.labels(worker=parts.name).set(backlog.oldest_seconds)
    if backlog.oldest_seconds >= _WAIT_SECONDS:
        logs.get_logger("load").warning(
            "requests_wait_for_a_slot",
            waiting=backlog.waiting,
            oldest_seconds=round(backlog.oldest_seconds, 1),
            slots_used=used,
            slots=parts.run_slots,
        )


async def beat(parts: Parts) -> None:
    """For ever. Each kind has its own pace, so that one that waits holds up no other."""
    metrics.SLOTS.labels(worker=parts.name).set_function(lambda: parts.run_slots)
    metrics.SLOTS_USED.labels(worker=parts.name).set_function(lambda: parts.register.slots_used)
    timings, log = parts.timings, logs.get_logger("heartbeat")
    every = partial(repeat, away=DatabaseUnavailable, log=log, problem="not_renewed")
    renew, again = timings.renew_seconds, timings.renew_again_seconds
    async with asyncio.TaskGroup() as group:
        group.create_task(every(lambda: _renew_leases(parts), renew, retry_seconds=again))
        group.create_task(every(parts.line.renew, renew))
        group.create_task(every(lambda: _hold_slots(parts), renew))
        group.create_task(every(lambda: report_load(parts), timings.load_seconds))
        group.create_task(parts.leases.keep_recording_availability())
        group.create_task(every(lambda: _say_alive(parts), timings.alive_look_seconds))


async def _renew_leases(parts: Parts) -> None:
    """What another worker has taken stops without a further word."""
    parts.register.lose(await parts.leases.renew())


async def _hold_slots(parts: Parts) -> None:
    """Renew the slots of runs that have begun.

    A request that has not begun has its gateway's slot, which lasts long enough, or none: renewing would give
    it one beyond the plan's number.
    """
    begun = [stage for stage in parts.register if isinstance(stage, Opened)]
    await parts.limiter.hold([(stage.request.account_id, stage.trace_id) for stage in begun])


async def _say_alive(parts: Parts) -> None:
    parts.register.give_up()
    for stage in parts.register:
        if not isinstance(stage, Taken) or not stage.lease.is_live:
            continue
        match stage:
            case RunningStage():
                await stage.channel.repeat_text()
                await stage.channel.send_alive()
            case WaitingStage():
                await parts.bus.traces.publish_frame(stage.trace_id, frames.Alive(seq=0, attempt=0))
            case _:
                pass
