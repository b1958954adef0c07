"""Interrupt a run before its end: always between appends, never during one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from agentchat.bus.errors import BusUnavailable
from agentchat.bus.trace_channel import Traces

T = TypeVar("T")

Reason = Literal["cancelled", "deadline", "shutdown", "lost"]
"""Cancelled by the caller; out of time; this worker stops; another worker has the run."""


class Interrupted(Exception):  # noqa: N818 - an outcome, named as such
    """The run stops here, for `reason`."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class Interruption:
    """The interruption of one run. The first reason counts."""

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self._deadline: float | None = None
        self._scope: asyncio.Timeout | None = None

    def limit(self, seconds: float) -> None:
        """Limit the run to `seconds` from now."""
        self._deadline = asyncio.get_running_loop().time() + seconds

    def interrupt(self, reason: Reason) -> None:
        """Interrupt `run_unless_interrupted`, now or at its next call."""
        if self.reason is None:
            self.reason = reason
            if self._scope is not None and not self._scope.expired():
                self._scope.reschedule(asyncio.get_running_loop().time())

    async def run_unless_interrupted(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await `work` until it is done or the run is interrupted. Raises Interrupted."""
        if self.reason is not None:
            raise Interrupted(self.reason)
        scope = asyncio.timeout_at(self._deadline)
        try:
            async with scope:
                self._scope = scope
                return await work()
        except TimeoutError:
            if not scope.expired():
                raise
            raise Interrupted(self.reason or "deadline") from None
        finally:
            self._scope = None


async def is_cancelled(traces: Traces, trace_id: str) -> bool:
    """Return True if the run was cancelled. Without NATS, False: cancellations are also followed."""
    try:
        return await traces.is_cancelled(trace_id)
    except BusUnavailable:
        return False
