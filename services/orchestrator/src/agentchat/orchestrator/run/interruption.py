"""Why a run stops before its end, and how it is made to: always between appends, never during one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from agentchat.bus.errors import BusUnavailable
from agentchat.bus.traces import Traces

T = TypeVar("T")

Reason = Literal["cancelled", "deadline", "shutdown", "lost"]
"""Asked for by the caller; out of time; this worker stops; another worker has the run."""


class Interrupted(Exception):  # noqa: N818 - an outcome, named as such
    """The run is to stop here."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class Interruption:
    """One run's switch. The first reason stands."""

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self._deadline: float | None = None
        self._scope: asyncio.Timeout | None = None

    def limit(self, seconds: float) -> None:
        """The run may take this long from now."""
        self._deadline = asyncio.get_running_loop().time() + seconds

    def interrupt(self, reason: Reason) -> None:
        """End what `allowed` awaits, now or when it is next called."""
        if self.reason is None:
            self.reason = reason
            if self._scope is not None and not self._scope.expired():
                self._scope.reschedule(asyncio.get_running_loop().time())

    async def run_unless_interrupted(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` for as long as nothing speaks against it. Raises Interrupted."""
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
    """NATS not answering is no reason to stop: cancellations are followed as well."""
    try:
        return await traces.is_cancelled(trace_id)
    except BusUnavailable:
        return False
