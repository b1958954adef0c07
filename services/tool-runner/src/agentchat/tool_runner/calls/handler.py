"""Handle a delivery of the work queue TOOLS: run the call, publish its result.

The other side is `orchestrator.tools.tool_calls.RunToolCalls`, which publishes a call in `_send_request` and
gets the result in `_take`.

`Executor.run` decides on one Disposition for the delivery, and `_settle` carries it out. The queue
acknowledges a delivery whose handler returns, unless it was put back or, undecodable, buried.
"""

import time
from collections.abc import Mapping

from mcp_types import CallToolResult
from opentelemetry.trace import StatusCode, get_current_span

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.queue_consumer import QueueDelivery
from agentchat.contracts import messages, subjects, tool_messages, wire
from agentchat.contracts.files import StoredFile
from agentchat.files.file_store import FileStore
from agentchat.runtime import failpoints, genai_attributes, logs, metrics, tracing
from agentchat.runtime.retry_loops import retry
from agentchat.tool_runner.calls.call_output import render_error, render_result
from agentchat.tool_runner.calls.executor import (
    AlreadyPublished,
    Disposition,
    Executor,
    PublishOutcome,
    Redeliver,
)
from agentchat.tool_runner.calls.result_files import StoredOrReason, store_files
from agentchat.tool_runner.calls.result_quota import ResultQuota
from agentchat.tool_runner.database_clock import parse_time
from agentchat.tool_runner.faults import ToolFault
from agentchat.tool_runner.servers.elicitation import InputRequired

HELD_PER_SLOT = 8
"""The messages that this process holds for each slot; they wait here for their accounts' turns."""

_PUBLISH_SECONDS = 30.0
_PUBLISH_AGAIN_SECONDS = 0.25
_SERVERS = metrics.BoundedNames()


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
            genai_attributes.OPERATION_NAME: genai_attributes.EXECUTE_TOOL,
            genai_attributes.TOOL_NAME: request.tool,
            genai_attributes.TOOL_CALL_ID: request.call_id,
            genai_attributes.TOOL_TYPE: "extension",
            genai_attributes.AGENT_ID: request.agent_id,
        }
        with (
            logs.bind_context(trace_id=request.trace_id, account_id=request.account_id),
            tracing.open_span(
                f"execute_tool {request.tool}",
                context=tracing.extract(delivery.headers),
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
                _record_call(request, outcome, finished, seconds)
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


def build_finished_call(
    request: tool_messages.ToolRequested,
    outcome: CallToolResult | InputRequired | ToolFault,
    seconds: float | None,
    stored: Mapping[int, StoredOrReason] = {},
) -> tool_messages.ToolFinished:
    """Build the report of a call that took `seconds`; None if it was refused before its server was asked.

    `stored` has the result's files by their places.
    """
    asked, quotes_server = outcome if isinstance(outcome, InputRequired) else None, False
    match outcome:
        case InputRequired():
            is_error, output = True, render_error(ToolFault("input").words)
        case ToolFault():
            is_error, output = True, render_error(outcome.words)
            quotes_server = bool(outcome.explanation)
        case CallToolResult():
            is_error, output = bool(outcome.is_error), render_result(outcome, stored)
            quotes_server = is_error
    return tool_messages.ToolFinished(
        trace_id=request.trace_id,
        call_id=request.call_id,
        output=output,
        is_error=is_error,
        quotes_server=quotes_server,
        files=tuple(file for _, file in sorted(stored.items()) if isinstance(file, StoredFile)),
        ms=round((seconds or 0.0) * 1000),
        leg=request.leg,
        input_requests=() if asked is None else asked.requests,
        request_state=None if asked is None else asked.request_state,
    )


def _record_call(
    request: tool_messages.ToolRequested,
    outcome: CallToolResult | InputRequired | ToolFault,
    finished: tool_messages.ToolFinished,
    seconds: float | None,
) -> None:
    """Log, trace and measure a call. A refused call is not measured: it says nothing about its server."""
    match outcome:
        case ToolFault(kind=kind, detail=detail):
            ended = fault = str(kind)
        case InputRequired():
            ended, fault, detail = "asks", "", ""
        case CallToolResult(is_error=True):
            ended, fault, detail = "tool_error", "tool_error", ""
        case _:
            ended, fault, detail = "ok", "", ""
    if fault:
        span = get_current_span()
        span.set_attribute(genai_attributes.ERROR_TYPE, fault)
        span.set_status(StatusCode.ERROR)
    if seconds is not None:
        metrics.TOOL_CALLS.labels(server=_SERVERS.admit(request.server), outcome=ended).observe(seconds)
    logs.get_logger("execute").info(
        "tool_finished",
        call_id=request.call_id,
        server=request.server,
        tool=request.tool,
        ms=finished.ms,
        chars=len(finished.output),
        fault=fault,
        detail=detail,
        asks=len(finished.input_requests),
    )
