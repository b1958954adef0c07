"""Renew leases, queue places and slots, and send keep-alive frames, every few seconds."""

import asyncio
from functools import partial

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import frames
from agentchat.orchestrator.request_stages import (
    LeasedRequest,
    RunningAttempt,
    StartedAttempt,
    WaitingRequest,
)
from agentchat.orchestrator.services import WorkerServices
from agentchat.runtime import logs, metrics
from agentchat.runtime.postgres import DatabaseUnavailable
from agentchat.runtime.retry_loops import repeat

_WAIT_SECONDS = 1.0
"""Age from which a request in the queue counts as waiting."""


async def report_load(services: WorkerServices) -> None:
    """Publish how full this worker is. Without NATS, the queue's last figures stay."""
    used = services.register.slots_used
    try:
        backlog = await services.bus.queues.measure_backlog("REQUESTS")
    except BusUnavailable:
        return
    metrics.WAITING.labels(worker=services.name).set(backlog.waiting)
    metrics.OLDEST_WAITING.labels(worker=services.name).set(backlog.oldest_seconds)
    if backlog.oldest_seconds >= _WAIT_SECONDS:
        logs.get_logger("load").warning(
            "requests_waiting_for_slot",
            waiting=backlog.waiting,
            oldest_seconds=round(backlog.oldest_seconds, 1),
            slots_used=used,
            slots=services.run_slots,
        )


async def run_heartbeat(services: WorkerServices) -> None:
    """Run all periodic work until cancelled, each kind at its own pace."""
    metrics.SLOTS.labels(worker=services.name).set_function(lambda: services.run_slots)
    metrics.SLOTS_USED.labels(worker=services.name).set_function(lambda: services.register.slots_used)
    timings, log = services.timings, logs.get_logger("heartbeat")
    every = partial(repeat, away=DatabaseUnavailable, log=log, problem="renewal_failed")
    renew, again = timings.renew_seconds, timings.renew_again_seconds
    async with asyncio.TaskGroup() as group:
        group.create_task(every(lambda: _renew_leases(services), renew, retry_seconds=again))
        group.create_task(every(services.line.renew, renew))
        group.create_task(every(lambda: _hold_slots(services), renew))
        group.create_task(every(lambda: report_load(services), timings.load_seconds))
        group.create_task(services.leases.keep_recording_availability())
        group.create_task(every(lambda: _send_keepalives(services), timings.alive_look_seconds))


async def _renew_leases(services: WorkerServices) -> None:
    """Renew the leases; interrupt the runs whose lease another worker has taken."""
    services.register.interrupt_lost(await services.leases.renew())


async def _hold_slots(services: WorkerServices) -> None:
    """Renew the account slots of runs that have started.

    A request that has not started uses its gateway's slot or none: renewing that would exceed the plan's
    limit.
    """
    begun = [stage for stage in services.register if isinstance(stage, StartedAttempt)]
    await services.limiter.hold([(stage.request.account_id, stage.trace_id) for stage in begun])


async def _send_keepalives(services: WorkerServices) -> None:
    services.register.interrupt_unrenewed()
    for stage in services.register:
        if not isinstance(stage, LeasedRequest) or not stage.lease.is_live:
            continue
        match stage:
            case RunningAttempt():
                await stage.channel.repeat_text()
                await stage.channel.send_alive()
            case WaitingRequest():
                await services.bus.traces.publish_frame(stage.trace_id, frames.Alive(seq=0, attempt=0))
            case _:
                pass
