"""Handle a delivery of the work queue TOOLS.

Run the call, publish its result, then acknowledge. The publisher of a call is orchestrator.tools.tool_calls,
which also consumes the result.

If a runner dies, the queue delivers its calls again. A repeatable call is then run again. For any other call
the journal has a row from before it started, so it is not run again: its result is reported as lost.

The functions stand in the order in which they happen. `_run` decides on one Disposition for the delivery, and
only `_settle` publishes or acknowledges.
"""

import asyncio
import math
import time

from mcp_types import CallToolResult
from msgspec import Struct
from msgspec.structs import replace

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.work_queue import QueueDelivery
from agentchat.contracts import messages, subjects, tool_messages, wire
from agentchat.contracts.timings import TOOL_ANSWER_SECONDS, TOOL_MOST_SECONDS, TOOL_TURN_SECONDS
from agentchat.files.file_store import FileStore
from agentchat.runtime import failpoints, genai, logs, metrics, telemetry
from agentchat.runtime.fair_slots import FairSlots, SlotsClosed
from agentchat.runtime.loops import retry
from agentchat.runtime.postgres import DatabaseUnavailable
from agentchat.tool_runner.calls.call_output import build_finished_call, record_call
from agentchat.tool_runner.calls.executor import Executor
from agentchat.tool_runner.calls.result_files import store_files
from agentchat.tool_runner.calls.result_quota import ResultQuota
from agentchat.tool_runner.calls.tool_progress import ProgressReporter
from agentchat.tool_runner.database_clock import DatabaseClock, parse_time
from agentchat.tool_runner.faults import ToolFailed, ToolFault
from agentchat.tool_runner.journal import Execution, Journal
from agentchat.tool_runner.servers.elicitation import InputRequired
from agentchat.tool_runner.servers.tool_server import ToolServer

HELD_PER_SLOT = 8
"""The messages that this process holds for each slot; they wait here for their accounts' turns."""

_PUBLISH_SECONDS = 30.0
_PUBLISH_AGAIN_SECONDS = 0.25
_WAITED_SECONDS = 0.1
_LOOK_AGAIN_SECONDS = 5.0
_REFUSALS = frozenset({"not_offered", "cancelled", "stopped"})


class PublishOutcome(Struct, frozen=True):
    """Publish this outcome, then acknowledge.

    `seconds` is the time of the call itself, without the wait for a slot; None for a refused call.
    """

    outcome: CallToolResult | InputRequired | ToolFault
    seconds: float | None = None


class Redeliver(Struct, frozen=True):
    """Have the queue deliver the call again after `seconds`; another runner may be running it."""

    seconds: float = 0.0


class AlreadyPublished(Struct, frozen=True):
    """Acknowledge only, because the outcome is already published."""


Disposition = PublishOutcome | Redeliver | AlreadyPublished
"""The decision about a delivery."""


class CallHandler:
    """The handler of the queue's deliveries.

    Accounts share the slots; one account gets half at most.
    """

    def __init__(
        self,
        bus: Bus,
        executor: Executor,
        journal: Journal,
        clock: DatabaseClock,
        quota: ResultQuota,
        files: FileStore,
        slots: int,
    ) -> None:
        self._bus = bus
        self._executor = executor
        self._journal = journal
        self._clock = clock
        self._quota = quota
        self._files = files
        self._slots = FairSlots(slots)
        self._log = logs.get_logger("calls")

    def close(self) -> None:
        """Return the calls that wait for a slot to the queue; running calls continue."""
        self._slots.close()

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
            disposition = await self._run(request, delivery.attempt)
            await self._settle(delivery, request, disposition)

    async def _run(self, request: tool_messages.ToolRequested, attempt: int) -> Disposition:
        if attempt > 1 and await self._is_reported(request):
            return AlreadyPublished()
        failpoints.reach("tool-runner-received")
        try:
            seconds_left = await self._get_seconds_left(request)
            server = await self._executor.find_server(request)
            with server.keep_open():
                return await self._run_in_turn(request, attempt, server, seconds_left)
        except ToolFailed as failed:
            return await self._refuse(request, failed.fault)

    async def _get_seconds_left(self, request: tool_messages.ToolRequested) -> float:
        """Return the seconds until the deadline.

        Raises ToolFailed if it has passed or the run is cancelled.
        """
        seconds_left = await self._clock.get_seconds_until(request.deadline) if request.deadline else math.inf
        if seconds_left <= 0:
            raise ToolFailed("late")
        if await self._bus.traces.is_cancelled(request.trace_id):
            raise ToolFailed("cancelled")
        return seconds_left

    async def _run_in_turn(
        self, request: tool_messages.ToolRequested, attempt: int, server: ToolServer, seconds_left: float
    ) -> Disposition:
        """Run the call once its account has a slot. Raises ToolFailed if it did not start here."""
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        deadline = arrived + seconds_left
        try:
            async with asyncio.timeout_at(min(arrived + TOOL_TURN_SECONDS, deadline)):
                await self._slots.take(request.account_id)
        except SlotsClosed:
            return Redeliver()
        except TimeoutError as error:
            metrics.TOOLS_WAITED.labels(begun=False).inc()
            metrics.TOOL_WAITS.labels(begun=False).observe(loop.time() - arrived)
            raise ToolFailed("busy", f"waited {loop.time() - arrived:.1f} s") from error
        try:
            waited = loop.time() - arrived
            metrics.TOOL_WAITS.labels(begun=True).observe(waited)
            if waited >= _WAITED_SECONDS:
                metrics.TOOLS_WAITED.labels(begun=True).inc()
                self._log.info("call_waited", call_id=request.call_id, ms=round(waited * 1000))
            seconds = min(max(request.timeout_s, 0.1), TOOL_MOST_SECONDS)
            until = min(loop.time() + seconds, deadline)
            return await self._claim_and_run(request, attempt, server, until)
        finally:
            self._slots.release(request.account_id)

    async def _claim_and_run(
        self, request: tool_messages.ToolRequested, attempt: int, server: ToolServer, until: float
    ) -> Disposition:
        """Claim the call in the journal if it must not run twice, then run it until `until`."""
        began = time.perf_counter()
        try:
            tool = await self._executor.find_tool(server, request, until)
        except ToolFailed as failed:
            is_refused = failed.fault.kind in _REFUSALS  # anything else is a failure of the server
            return await self._refuse(request, failed.fault, None if is_refused else _measure(began))
        try:
            earlier_start = None if tool.repeatable else await self._claim(request, attempt, until)
        except ToolFailed as failed:
            return PublishOutcome(failed.fault)
        if earlier_start is not None:
            return earlier_start
        began = time.perf_counter()
        try:
            reporter = ProgressReporter(self._bus.traces, request)
            outcome = await self._executor.call(server, tool, request, until, reporter.report)
        except ToolFailed as failed:
            if tool.repeatable and failed.fault.kind == "stopped":
                return Redeliver()
            return PublishOutcome(replace(failed.fault, writing=not tool.repeatable), _measure(began))
        return PublishOutcome(outcome, _measure(began))

    async def _claim(
        self, request: tool_messages.ToolRequested, attempt: int, until: float
    ) -> Disposition | None:
        """Claim a call that must not run twice. Returns None if this process may run it.

        Raises:
            ToolFailed: The call must not be run: Postgres does not answer, or the deadline has passed.
            DatabaseUnavailable: An earlier delivery may have started the call.
        """
        loop = asyncio.get_running_loop()
        failpoints.reach("tool-runner-before-journal")
        try:
            execution = await self._journal.claim(
                request.trace_id,
                request.leg_id,
                deadline=None if request.deadline is None else parse_time(request.deadline),
                seconds=until - loop.time() + TOOL_ANSWER_SECONDS,
            )
        except DatabaseUnavailable as error:
            if attempt > 1:
                raise
            raise ToolFailed("not_started", str(error)) from error
        if execution is None or (execution.mine and loop.time() >= until):
            raise ToolFailed("late")
        if not execution.mine:
            return await self._decide_second_start(request, execution)
        failpoints.reach("tool-runner-journaled")
        return None

    async def _refuse(
        self, request: tool_messages.ToolRequested, fault: ToolFault, seconds: float | None = None
    ) -> Disposition:
        """Report `fault`, unless another runner has started the call and may still report it."""
        if fault.kind == "stopped":
            return Redeliver()
        execution = await self._journal.find(request.trace_id, request.leg_id)
        if execution is None:
            return PublishOutcome(fault, seconds)
        return await self._decide_second_start(request, execution)

    async def _decide_second_start(
        self, request: tool_messages.ToolRequested, execution: Execution
    ) -> Disposition:
        """Decide about a call that has started before: it is published, may still be, or is lost."""
        self._log.warning("call_started_before", call_id=request.call_id, runner=execution.runner)
        if await self._is_reported(request):
            return AlreadyPublished()
        if execution.seconds_left > 0:
            return Redeliver(min(execution.seconds_left, _LOOK_AGAIN_SECONDS))
        return PublishOutcome(ToolFault("lost", f"started by {execution.runner}", writing=True))

    async def _is_reported(self, request: tool_messages.ToolRequested) -> bool:
        """Return True if the result of this leg or a later one is published.

        Raises BusUnavailable.
        """
        result = (await self._bus.traces.read_tool_results(request.trace_id)).get(request.call_id)
        return result is not None and result.leg >= request.leg

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
        self._log.error("request_undecodable", reason=reason)
        payload = delivery.data.decode("utf-8", "replace")
        await self._bus.queues.publish_dead_letter(
            messages.DeadLettered(
                stream=subjects.TOOLS, subject=delivery.subject, reason=reason, payload=payload
            )
        )
        await delivery.terminate()


def _measure(began: float) -> float:
    return time.perf_counter() - began


def _decode(data: bytes) -> tool_messages.ToolRequested:
    """Decode a request. Raises ValueError, also for a deadline that is not a time."""
    request = wire.decode_message(tool_messages.ToolRequested, data)
    if request.deadline is not None:
        parse_time(request.deadline)
    return request
