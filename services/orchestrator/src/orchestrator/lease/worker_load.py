"""How full this worker is, and what waits for any worker: as metrics, and in the log while requests wait.

A request that finds all run slots taken stays in REQUESTS, first come, first served. Its gateway answers 503
`overloaded` after 15 s, and a worker that comes to it later finds it void.
"""

from bus import BusUnavailable
from orchestrator.orchestrator_services import Parts
from runtime import logs, telemetry

_WAIT_SECONDS = 1.0
"""A request that was stored just now has not waited."""


async def report_load(parts: Parts) -> None:
    """To be called every few seconds. A bus that does not answer leaves the old figures of the queue."""
    used = parts.register.slots_used
    telemetry.measure("agentchat.runs.slots", parts.run_slots, worker=parts.name)
    telemetry.measure("agentchat.runs.slots_used", used, worker=parts.name)
    try:
        backlog = await parts.bus.queues.backlog("REQUESTS")
    except BusUnavailable:
        return
    telemetry.measure("agentchat.requests.waiting", backlog.waiting, worker=parts.name)
    telemetry.measure("agentchat.requests.oldest_seconds", backlog.oldest_seconds, worker=parts.name)
    if backlog.oldest_seconds >= _WAIT_SECONDS:
        logs.get_logger("load").warning(
            "requests_wait_for_a_slot",
            waiting=backlog.waiting,
            oldest_seconds=round(backlog.oldest_seconds, 1),
            slots_used=used,
            slots=parts.run_slots,
        )
