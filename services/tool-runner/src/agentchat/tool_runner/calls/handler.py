"""Handle a delivery of the work queue TOOLS.

Run the call, publish its result, then acknowledge. The publisher of a call is orchestrator.tools.tool_calls,
which also consumes the result.

`Executor.run` decides on one Disposition for the delivery, and only `_settle` publishes or acknowledges.
"""

import time

from mcp_types import CallToolResult

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.queue_consumer import QueueDelivery
from agentchat.contracts import messages, subjects, tool_messages, wire
from agentchat.files.file_store import FileStore
from agentchat.runtime import failpoints, genai, logs, telemetry
from agentchat.runtime.loops import retry
from agentchat.tool_runner.calls.call_output import build_finished_call, record_call
from agentchat.tool_runner.calls.executor import (
    AlreadyPublished,
    Disposition,
    Executor,
    PublishOutcome,
    Redeliver,
)
from agentchat.tool_runner.calls.result_files import store_files
from agentchat.tool_runner.calls.result_quota import ResultQuota
from agentchat.tool_runner.database_clock import parse_time
from agentchat.tool_runner.faults import ToolFault

HELD_PER_SLOT = 8
"""The messages that this process holds for each slot; they wait here for their accounts' turns."""

_PUBLISH_SECONDS = 30.0
_PUBLISH_AGAIN_SECONDS = 0.25


class CallHandler:
    """The handler of the queue's deliveries."""

    def __init__(self, bus: Bus, executor: Executor, quota: ResultQuota, files: FileStore) -> None:
        self._bus = bus
        self._executor = executor
        self._quota = quota
        self._files = files

    async def handle(self, delivery: QueueDelivery) -> None:
        """Handle one delivery.

        After BusUnavailable or DatabaseUnavailable the queue delivers it again.
        """
        try:
            request = _decode(delivery.data)
        except ValueError as error:
            await self._bury(delivery, str(error))
            return
        attributes = {
            genai.OPERATION_NAME: genai.EXECUTE_TOOL,
            genai.TOOL_NAME: request.tool,
            genai.TOOL_CALL_ID: request.call_id,
            genai.TOOL_TYPE: "extension",
            genai.AGENT_ID: request.agent_id,
        }
        with (
            logs.bind_context(trace_id=request.trace_id, account_id=request.account_id),
            telemetry.open_span(
                f"execute_tool {request.tool}",
                context=telemetry.extract(delivery.headers),
                attributes=attributes,
            ),
        ):
            disposition = await self._executor.run(request, delivery.attempt)
            await self._settle(delivery, request, disposition)

    async def _settle(
        self,
        delivery: QueueDelivery,
        request: tool_messages.ToolRequested,
        disposition: Disposition,
    ) -> None:
        match disposition:
            case Redeliver(seconds):
                await delivery.nak(seconds)
            case PublishOutcome(outcome, seconds):
                stored = (
                    await store_files(self._files, request, outcome)
                    if isinstance(outcome, CallToolResult)
                    else {}
                )
                finished = build_finished_call(request, outcome, seconds, stored)
                size = len(wire.encode(finished))
                if not self._quota.take(request.account_id, size, time.monotonic()):
                    outcome = ToolFault("crowded")
                    finished = build_finished_call(request, outcome, seconds)
                record_call(request, outcome, finished, seconds)
                failpoints.reach("tool-runner-called")
                await self._publish(finished)
                failpoints.reach("tool-runner-published")
            case AlreadyPublished():
                pass  # a delivery whose handler returns is acknowledged

    async def _publish(self, finished: tool_messages.ToolFinished) -> None:
        """Publish a result, retrying for 30 s while NATS is away: an unpublished result is lost."""
        await retry(
            lambda: self._bus.traces.finish_tool(finished),
            BusUnavailable,
            pause_seconds=_PUBLISH_AGAIN_SECONDS,
            seconds=_PUBLISH_SECONDS,
        )

    async def _bury(self, delivery: QueueDelivery, reason: str) -> None:
        logs.get_logger("calls").error("request_undecodable", reason=reason)
        payload = delivery.data.decode("utf-8", "replace")
        await self._bus.queues.publish_dead_letter(
            messages.DeadLettered(
                stream=subjects.TOOLS, subject=delivery.subject, reason=reason, payload=payload
            )
        )
        await delivery.terminate()


def _decode(data: bytes) -> tool_messages.ToolRequested:
    """Decode a request. Raises ValueError, also for a deadline that is not a time."""
    request = wire.decode_message(tool_messages.ToolRequested, data)
    if request.deadline is not None:
        parse_time(request.deadline)
    return request
