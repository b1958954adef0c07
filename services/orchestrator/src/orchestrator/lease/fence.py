"""What keeps a worker from speaking for a run that another one may have by now.

The worker may be cut off from Postgres but not from NATS, or may have been stopped for a while: it cannot
know whether its lease was taken. So its own clock is asked before each frame.
"""

from bus import Traces
from contracts import frames
from conversations.leases.leases import Lease
from orchestrator.run.interruption import Interrupted

_HARMLESS = frames.Completed | frames.Failed | frames.Paused | frames.Alive
"""The end of a run, or its wait, is in the log before it is said, and a sign of life changes nothing."""


class Fence:
    """The bus, for as long as the lease of a run is live."""

    def __init__(self, traces: Traces, lease: Lease) -> None:
        self._traces = traces
        self._lease = lease

    @property
    def is_open(self) -> bool:
        """Whether any frame may be sent now."""
        return self._lease.is_live

    async def ready(self, frame: frames.Frame) -> None:
        """Return when the lease is live. Raises Interrupted: it is lost, or was not renewed in time."""
        if isinstance(frame, _HARMLESS) or await self._lease.wait_until_live():
            return
        raise Interrupted("lost")

    def send_frame(self, trace_id: str, frame: frames.Frame) -> bool:
        """As the bus does it."""
        return self._traces.send_frame(trace_id, frame)
