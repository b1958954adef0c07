"""Publish the progress that a tool server reports of a running call, as live frames."""

import asyncio
import math

from agentchat.bus.trace_channel import Traces
from agentchat.contracts import frames
from agentchat.contracts.text_checks import clean_text
from agentchat.contracts.tool_messages import ToolRequested

INTERVAL_SECONDS = 0.25
_MESSAGE_CHARACTERS = 500


class ProgressReporter:
    """Publishes the progress of one call; reports within INTERVAL_SECONDS of the last one are dropped."""

    def __init__(self, traces: Traces, request: ToolRequested) -> None:
        self._traces = traces
        self._request = request
        self._next_at = 0.0

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Publish a report (callback of the MCP client)."""
        now = asyncio.get_running_loop().time()
        if now < self._next_at or not math.isfinite(progress):
            return
        self._next_at = now + INTERVAL_SECONDS
        frame = frames.ToolProgressFrame(
            seq=0,
            attempt=0,
            call_id=self._request.call_id,
            progress=progress,
            total=total if total is not None and math.isfinite(total) else None,
            message=None if message is None else clean_text(message[:_MESSAGE_CHARACTERS]),
        )
        await self._traces.publish_frame(self._request.trace_id, frame)
