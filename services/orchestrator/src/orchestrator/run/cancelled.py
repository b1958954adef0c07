"""Whether the end of a run was asked for, by whichever gateway."""

from bus import BusUnavailable
from orchestrator.orchestrator_services import Parts


async def is_cancelled(parts: Parts, trace_id: str) -> bool:
    """NATS not answering is no reason to stop: cancellations are followed as well."""
    try:
        return await parts.bus.traces.is_cancelled(trace_id)
    except BusUnavailable:
        return False
