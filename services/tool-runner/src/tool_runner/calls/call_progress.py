"""Reports to whoever waits for a call that it continues, while its server reports progress; and finds
reports.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, timedelta
from typing import NamedTuple

from bus import BusUnavailable
from bus.traces import Traces
from contracts.timings import TOOL_PROGRESS_SECONDS, TOOL_SLACK_SECONDS
from contracts.tool_messages import ToolFinished, ToolProgressed, ToolRequested
from tool_runner.time_limit import TimeLimit, moment


class Earlier(NamedTuple):
    """What is known of a call that was delivered before; `deadline`: what its progress has deferred it to."""

    finished: bool
    deadline: str | None


async def earlier_news(traces: Traces, request: ToolRequested) -> Earlier:
    """Raises BusUnavailable."""
    news = [each for each in await traces.tool_news_of(request.trace_id) if each.call_id == request.call_id]
    finished = any(isinstance(each, ToolFinished) and each.leg >= request.leg for each in news)
    deadlines = [
        each.deadline for each in news if isinstance(each, ToolProgressed) and each.leg == request.leg
    ]
    return Earlier(finished, max(deadlines, default=None))


@contextlib.asynccontextmanager
async def progress_told(
    traces: Traces, request: ToolRequested, limit: TimeLimit, deadline: float
) -> AsyncIterator[None]:
    """Report each deferral of `limit` within this block. `deadline`: the request's, on the loop's clock."""
    reports = _Reports(traces, request, limit, deadline)
    with limit.followed(reports.deferred):
        try:
            yield
        finally:
            reports.close()


class _Reports:
    """Reports the newest deadline, at once or a second after the one before. What NATS does not take is
    reported again.
    """

    def __init__(self, traces: Traces, request: ToolRequested, limit: TimeLimit, deadline: float) -> None:
        self._traces = traces
        self._request = request
        self._limit = limit
        self._deadline = deadline
        self._said = limit.until
        self._telling: asyncio.Task[None] | None = None

    def deferred(self, _until: float) -> None:
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())

    def close(self) -> None:
        if self._telling is not None:
            self._telling.cancel()

    async def _tell(self) -> None:
        while self._said < (until := self._limit.until):
            with contextlib.suppress(BusUnavailable):
                await self._traces.progress_tool(self._progressed(until))
                self._said = until
            await asyncio.sleep(TOOL_PROGRESS_SECONDS)

    def _progressed(self, until: float) -> ToolProgressed:
        """The deadline is as long after the limit as that of the request is after the call's time."""
        request = self._request
        assert request.deadline is not None
        assert request.ends_by is not None
        further = timedelta(seconds=until + TOOL_SLACK_SECONDS - self._deadline)
        deadline = min(moment(request.deadline) + further, moment(request.ends_by)).astimezone(UTC)
        return ToolProgressed(
            trace_id=request.trace_id,
            call_id=request.call_id,
            deadline=deadline.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z",
            leg=request.leg,
        )
