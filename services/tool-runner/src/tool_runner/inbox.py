"""The work queue TOOLS: which calls are run, and how their results leave.

A call is acknowledged after its result was published, so that it comes again when its runner has died. One
that may be repeated is then run again. Any other has a row in the journal from before it ran, and is not.
"""

import asyncio
import math
import time
from collections.abc import Sequence

import msgspec
from mcp_types import CallToolResult

from bus import Bus, BusUnavailable, Delivery
from contracts import messages, subjects, wire
from journal import Journal
from runtime import genai, logs, telemetry
from runtime.postgres import DatabaseUnavailable
from tool_runner.allowance import Allowance
from tool_runner.clock import ServerClock, moment
from tool_runner.execute import MAX_SECONDS, Executor
from tool_runner.faults import Fault, ToolFailed
from tool_runner.servers import Server

_PUBLISH_SECONDS = 30.0
_PUBLISH_AGAIN_SECONDS = 0.25
# A server with all its places taken: put back, so that waiting takes no slot from others.
_BUSY_SECONDS = 0.5
_BUSY_DELIVERIES = 20
# What a runner may take beyond a call's time to publish its result.
_TELL_SECONDS = 2.0
_LOOK_AGAIN_SECONDS = 5.0


class Inbox:
    """Handles deliveries of TOOLS."""

    def __init__(
        self, bus: Bus, executor: Executor, journal: Journal, clock: ServerClock, allowance: Allowance
    ) -> None:
        self._bus = bus
        self._executor = executor
        self._journal = journal
        self._clock = clock
        self._allowance = allowance
        self._log = logs.get_logger("inbox")

    async def handle(self, delivery: Delivery) -> None:
        """Work off one message. Raises BusUnavailable, DatabaseUnavailable: it is then delivered again."""
        try:
            request = _decoded(delivery.data)
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
            logs.bound(trace_id=request.trace_id, account_id=request.account_id),
            telemetry.tracer().start_as_current_span(
                f"execute_tool {request.tool}",
                context=telemetry.extract(delivery.headers),
                attributes=attributes,
            ),
        ):
            await self._work(delivery, request)

    async def _work(self, delivery: Delivery, request: messages.ToolRequested) -> None:
        if delivery.attempt > 1 and await self._finished_before(request):
            return
        began = time.perf_counter()
        outcome: CallToolResult | Fault | None
        secrets: Sequence[str] = ()
        try:
            seconds = await self._seconds_for(request)
            server = await self._executor.server(request)
        except ToolFailed as failed:
            outcome = failed.fault
        else:
            secrets = server.secrets
            if not server.reserve():
                await self._put_back(delivery, request, began)
                return
            try:
                until = asyncio.get_running_loop().time() + seconds
                outcome = await self._outcome(delivery, request, server, until)
            finally:
                server.release()
        if outcome is not None:
            finished = self._executor.finished(request, outcome, began, secrets)
            size = len(wire.encode(finished))
            if not self._allowance.take(request.account_id, size, time.monotonic()):
                finished = self._executor.finished(request, Fault("crowded"), began)
            await self._publish(finished)

    async def _seconds_for(self, request: messages.ToolRequested) -> float:
        """How long the call may take. Raises ToolFailed if nobody waits for it any more.

        Also BusUnavailable, DatabaseUnavailable.
        """
        left = math.inf
        if request.deadline is not None:
            left = await self._clock.seconds_until(request.deadline)
        if left <= 0:
            raise ToolFailed("late")
        if await self._bus.is_cancelled(request.trace_id):
            raise ToolFailed("cancelled")
        return min(max(request.timeout_s, 0.1), MAX_SECONDS, left)

    async def _outcome(
        self, delivery: Delivery, request: messages.ToolRequested, server: Server, until: float
    ) -> CallToolResult | Fault | None:
        """What came of the call, by `until` (loop time); None if it is not this process's to tell."""
        writing = begun = False
        try:
            tool = await self._executor.tool(server, request, until)
            writing = not tool.repeatable
            if writing:
                begun = await self._begin(delivery, request, until)
                if not begun:
                    return None
            return await self._executor.run(server, tool, request, until)
        except ToolFailed as failed:
            if failed.fault.kind == "stopped" and not begun:
                await delivery.nak()
                return None
            return msgspec.structs.replace(failed.fault, writing=writing)

    async def _begin(self, delivery: Delivery, request: messages.ToolRequested, until: float) -> bool:
        """Claim a call that must not run twice; False if its outcome is known, or somebody may be at it.

        Raises ToolFailed where it is not to be run: Postgres does not answer, its time is up, or it was begun
        before and nobody knows what came of it.
        """
        loop = asyncio.get_running_loop()
        try:
            execution = await self._journal.begin(
                request.trace_id,
                request.call_id,
                deadline=None if request.deadline is None else moment(request.deadline),
                seconds=until - loop.time() + _TELL_SECONDS,
            )
        except DatabaseUnavailable as error:
            raise ToolFailed("not_started", str(error)) from error
        if execution is None or (execution.mine and loop.time() >= until):
            raise ToolFailed("late")
        if execution.mine:
            return True
        self._log.warning("begun_before", call_id=request.call_id, runner=execution.runner)
        if await self._finished_before(request):
            return False
        if execution.seconds_left > 0:
            await delivery.nak(min(execution.seconds_left, _LOOK_AGAIN_SECONDS))
            return False
        raise ToolFailed("lost", f"begun by {execution.runner}")

    async def _finished_before(self, request: messages.ToolRequested) -> bool:
        return request.call_id in await self._bus.tool_results_of(request.trace_id)

    async def _put_back(self, delivery: Delivery, request: messages.ToolRequested, began: float) -> None:
        if delivery.attempt < _BUSY_DELIVERIES:
            await delivery.nak(_BUSY_SECONDS)
        else:
            await self._publish(self._executor.finished(request, Fault("busy"), began))

    async def _publish(self, finished: messages.ToolFinished) -> None:
        """Publish a result, through a NATS outage too: what is not published here is lost."""
        give_up_at = time.monotonic() + _PUBLISH_SECONDS
        while True:
            try:
                await self._bus.finish_tool(finished)
            except BusUnavailable:
                if self._executor.interrupted or time.monotonic() > give_up_at:
                    raise
                await asyncio.sleep(_PUBLISH_AGAIN_SECONDS)
            else:
                return

    async def _bury(self, delivery: Delivery, reason: str) -> None:
        self._log.error("request_undecodable", reason=reason)
        payload = delivery.data.decode("utf-8", "replace")
        await self._bus.dead(
            messages.DeadLettered(
                stream=subjects.TOOLS, subject=delivery.subject, reason=reason, payload=payload
            )
        )
        await delivery.term()


def _decoded(data: bytes) -> messages.ToolRequested:
    """Raises ValueError for what is no JSON, no request, or no time."""
    request = wire.decode_message(messages.ToolRequested, data)
    if request.deadline is not None:
        moment(request.deadline)
    return request
