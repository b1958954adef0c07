"""Run a tool call: find its server, wait for a slot, claim the call, and make it.

If a runner dies, the queue delivers its calls again. A repeatable call is then run again. For any other call
the journal has a row from before it started, so it is not run again: its result is reported as lost.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CallToolResult
from msgspec import Struct
from msgspec.structs import replace
from opentelemetry.trace import SpanKind, StatusCode

from agentchat.bus.bus import Bus
from agentchat.contracts import messages, tool_messages
from agentchat.contracts.timings import TOOL_ANSWER_SECONDS, TOOL_MOST_SECONDS, TOOL_TURN_SECONDS
from agentchat.runtime import failpoints, genai_attributes, logs, metrics, tracing
from agentchat.runtime.bounded_map import BoundedMap
from agentchat.runtime.fair_slots import FairSlots, SlotsClosed
from agentchat.runtime.postgres import DatabaseUnavailable
from agentchat.tool_runner.calls.tool_progress import ProgressReporter
from agentchat.tool_runner.database_clock import DatabaseClock, parse_time
from agentchat.tool_runner.faults import FaultKind, ToolFailed, ToolFault
from agentchat.tool_runner.journal import Execution, Journal
from agentchat.tool_runner.servers.agent_servers import AgentServers
from agentchat.tool_runner.servers.elicitation import MAX_CALL_ATTEMPTS, CallAttempt, InputRequired
from agentchat.tool_runner.servers.tool_servers import ServerPool, ToolServer
from agentchat.tool_runner.tools.listing import is_allowed
from agentchat.tool_runner.tools.server_tool import OfferedTool

_CANCELLED = 10_000
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


@dataclass(eq=False)
class _RunningCall:
    """A running call, and the fault with which it fails if its scope ends."""

    run: tuple[str, str]
    scope: asyncio.Timeout
    fault: FaultKind = "stopped"

    def end(self, fault: FaultKind) -> None:
        self.fault = fault
        if not self.scope.expired():
            self.scope.reschedule(asyncio.get_running_loop().time())


class Executor:
    """The tool calls of this process. Accounts share its slots; one account gets half at most."""

    def __init__(
        self,
        bus: Bus,
        agents: AgentServers,
        servers: ServerPool,
        journal: Journal,
        clock: DatabaseClock,
        slots: int,
    ) -> None:
        self.interrupted = False
        self._bus = bus
        self._agents = agents
        self._servers = servers
        self._journal = journal
        self._clock = clock
        self._slots = FairSlots(slots)
        self._running: set[_RunningCall] = set()
        self._cancelled: BoundedMap[tuple[str, str], bool] = BoundedMap(_CANCELLED)
        self._log = logs.get_logger("calls")

    def close(self) -> None:
        """Return the calls that wait for a slot to the queue; running calls continue."""
        self._slots.close()

    def interrupt(self) -> None:
        """End running calls as `stopped`, and refuse those that start later."""
        self.interrupted = True
        for call in self._running:
            call.end("stopped")

    def cancel(self, request: messages.CancelRequested) -> None:
        """End the calls of a cancelled run, and refuse those that start later.

        The other side is `gateway.api.cancel_run`, through CANCELS.
        """
        run = (request.account_id, request.trace_id)
        self._cancelled.put(run, True)
        for call in self._running:
            if call.run == run:
                call.end("cancelled")

    async def run(self, request: tool_messages.ToolRequested, deliveries: int) -> Disposition:
        """Run a call and decide about its delivery. Raises BusUnavailable, DatabaseUnavailable."""
        if deliveries > 1 and await self._is_reported(request):
            return AlreadyPublished()
        failpoints.reach("tool-runner-received")
        try:
            seconds_left = await self._get_seconds_left(request)
            server = await self.find_server(request)
            with server.keep_open():
                return await self._run_in_turn(request, deliveries, server, seconds_left)
        except ToolFailed as failed:
            return await self._refuse(request, failed.fault)

    async def _get_seconds_left(self, request: tool_messages.ToolRequested) -> float:
        """Return the seconds until the deadline.

        Raises ToolFailed if it has passed or the run is cancelled.
        """
        seconds_left = await self._clock.get_seconds_until(request.deadline) if request.deadline else math.inf
        if seconds_left <= 0:
            raise ToolFailed("late")
        cancelled = self._bus.traces.is_known_cancelled(request.trace_id)
        if cancelled or (cancelled is None and await self._bus.traces.is_cancelled(request.trace_id)):
            raise ToolFailed("cancelled")
        return seconds_left

    async def find_server(self, request: tool_messages.ToolRequested) -> ToolServer:
        """Return the server of a call, if its run has not ended and the agent may use the tool."""
        for config in await self._agents.load_servers(
            request.account_id, request.agent_id, request.agent_version, request.trace_id
        ):
            if config.name == request.server and is_allowed(config, request.tool):
                config = await self._agents.add_request_headers(config, request.account_id, request.trace_id)
                return self._servers.get(request.account_id, config)
        raise ToolFailed("not_offered", "no such server, or not allowed")

    async def _run_in_turn(
        self, request: tool_messages.ToolRequested, deliveries: int, server: ToolServer, seconds_left: float
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
            return await self._claim_and_run(request, deliveries, server, until)
        finally:
            self._slots.release(request.account_id)

    async def _claim_and_run(
        self, request: tool_messages.ToolRequested, deliveries: int, server: ToolServer, until: float
    ) -> Disposition:
        """Claim the call in the journal if it must not run twice, then run it until `until`."""
        began = time.perf_counter()
        try:
            tool = await self._find_tool(server, request, until)
        except ToolFailed as failed:
            is_refused = failed.fault.kind in _REFUSALS  # anything else is a failure of the server
            return await self._refuse(request, failed.fault, None if is_refused else _measure(began))
        try:
            disposition = None if tool.repeatable else await self._claim(request, deliveries, until)
        except ToolFailed as failed:
            return PublishOutcome(failed.fault)
        if disposition is not None:
            return disposition
        began = time.perf_counter()
        try:
            reporter = ProgressReporter(self._bus.traces, request)
            outcome = await self._call(server, tool, request, until, reporter.report)
        except ToolFailed as failed:
            if tool.repeatable and failed.fault.kind == "stopped":
                return Redeliver()
            return PublishOutcome(replace(failed.fault, writing=not tool.repeatable), _measure(began))
        return PublishOutcome(outcome, _measure(began))

    async def _find_tool(
        self, server: ToolServer, request: tool_messages.ToolRequested, until: float
    ) -> OfferedTool:
        """Return the tool as its server lists it, until `until` on the loop's clock.

        A tool that the known list lacks is looked up in a new one: it may have been added since.
        """
        began = asyncio.get_running_loop().time()
        async with self._contain_failures(request):
            try:
                async with asyncio.timeout_at(until):
                    tool = (await server.get_tools()).get(request.tool)
                    if tool is None:
                        tool = (await server.get_tools(newer_than=began)).get(request.tool)
            except TimeoutError as error:
                raise ToolFailed("timeout", "no listing") from error
        if tool is None:
            raise ToolFailed("not_offered", "not listed by the server")
        return tool

    async def _claim(
        self, request: tool_messages.ToolRequested, deliveries: int, until: float
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
            if deliveries > 1:
                raise
            raise ToolFailed("not_started", str(error)) from error
        if execution is None or (execution.mine and loop.time() >= until):
            raise ToolFailed("late")
        if not execution.mine:
            return await self._decide_second_start(request, execution)
        failpoints.reach("tool-runner-journaled")
        return None

    async def _call(
        self,
        server: ToolServer,
        tool: OfferedTool,
        request: tool_messages.ToolRequested,
        until: float,
        on_progress: ProgressFnT,
    ) -> CallToolResult | InputRequired:
        """Run the tool, until `until` on the loop's clock."""
        earlier = (request.leg, request.responses, request.request_state)
        attempt = CallAttempt(*earlier, request.meta, on_progress)
        with _trace_call(server, request):
            async with self._contain_failures(request):
                outcome = await server.call(tool, request.input, until, attempt)
            if isinstance(outcome, InputRequired) and attempt.number >= MAX_CALL_ATTEMPTS:
                raise ToolFailed("asks_again")
            return outcome

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
        """Decide about a call that has started before: its result is there, may still come, or is lost."""
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

    @asynccontextmanager
    async def _contain_failures(self, request: tool_messages.ToolRequested) -> AsyncIterator[None]:
        """Make the block interruptible, and turn every failure of it into ToolFailed."""
        call = _RunningCall((request.account_id, request.trace_id), asyncio.timeout(None))
        if self.interrupted:
            raise ToolFailed("stopped")
        if self._cancelled.get(call.run):
            raise ToolFailed("cancelled")
        self._running.add(call)
        try:
            async with call.scope:
                yield
        except TimeoutError as error:
            raise ToolFailed(call.fault) from error
        except ToolFailed:
            raise
        except Exception as error:  # an error of the MCP client must not cause a redelivery
            self._log.exception("client_failed")
            raise ToolFailed("protocol", type(error).__name__) from error
        finally:
            self._running.discard(call)


@contextmanager
def _trace_call(server: ToolServer, request: tool_messages.ToolRequested) -> Iterator[None]:
    """Open the MCP client's span; the call's `_meta` carries its context to the server."""
    attributes = {
        genai_attributes.MCP_METHOD_NAME: "tools/call",
        genai_attributes.OPERATION_NAME: genai_attributes.EXECUTE_TOOL,
        genai_attributes.TOOL_NAME: request.tool,
        genai_attributes.MCP_PROTOCOL_VERSION: server.protocol_version,
    }
    with tracing.open_span(f"tools/call {request.tool}", kind=SpanKind.CLIENT, attributes=attributes) as span:
        try:
            yield
        except ToolFailed as failed:
            span.set_attribute(genai_attributes.ERROR_TYPE, failed.fault.kind)
            span.set_status(StatusCode.ERROR)
            raise


def _measure(began: float) -> float:
    return time.perf_counter() - began
