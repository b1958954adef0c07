"""A ToolRequested becomes a ToolFinished: find the tool, call it, render what came back."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from mcp_types import CallToolResult
from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span

from contracts import messages, tool_messages
from runtime import genai, logs, metrics, telemetry
from runtime.bounded import BoundedMap
from tool_runner.calls.call_output import error_output, rendered
from tool_runner.faults import Kind, ToolFailed, ToolFault
from tool_runner.redaction import redacted_json
from tool_runner.servers.agent_servers import AgentServers
from tool_runner.servers.elicitation import MAX_CALL_ATTEMPTS, CallAttempt, InputRequired
from tool_runner.servers.pool import ServerPool, ToolServer
from tool_runner.time_limit import TimeLimit
from tool_runner.tools.listing import is_allowed
from tool_runner.tools.server_tool import OfferedTool

_CANCELLED = 10_000


@dataclass(eq=False)
class _Call:
    """A call under way, and why it ends if its scope does."""

    run: tuple[str, str]
    scope: asyncio.Timeout
    why: Kind = "stopped"

    def end(self, why: Kind) -> None:
        self.why = why
        if not self.scope.expired():
            self.scope.reschedule(asyncio.get_running_loop().time())


class Executor:
    def __init__(self, agents: AgentServers, servers: ServerPool) -> None:
        self.interrupted = False
        self._agents = agents
        self._servers = servers
        self._running: set[_Call] = set()
        self._cancelled: BoundedMap[tuple[str, str], bool] = BoundedMap(_CANCELLED)
        self._log = logs.get_logger("execute")

    def interrupt(self) -> None:
        """End the calls that run, and those that begin from now on, as `stopped`."""
        self.interrupted = True
        for call in self._running:
            call.end("stopped")

    def cancel(self, asked: messages.CancelRequested) -> None:
        """End the calls of a run that its caller has cancelled, and those that would begin later."""
        run = (asked.account_id, asked.trace_id)
        self._cancelled.put(run, True)
        for call in self._running:
            if call.run == run:
                call.end("cancelled")

    async def server(self, request: tool_messages.ToolRequested) -> ToolServer:
        """Where a call goes, if its run continues and the agent may use that tool.

        Raises ToolFailed, DatabaseUnavailable.
        """
        for config in await self._agents.servers(
            request.account_id, request.agent_id, request.agent_version, request.trace_id
        ):
            if config.name == request.server and is_allowed(config, request.tool):
                return self._servers.get(request.account_id, config)
        raise ToolFailed("not_offered", "no such server, or not allowed")

    async def tool(
        self, server: ToolServer, request: tool_messages.ToolRequested, deadline: float
    ) -> OfferedTool:
        """The tool as the server lists it now. Raises ToolFailed."""
        async with self._boundary(request):
            try:
                async with asyncio.timeout_at(deadline):
                    tool = (await server.tools()).get(request.tool)
            except TimeoutError as error:
                raise ToolFailed("timeout", "no listing") from error
        if tool is None:
            raise ToolFailed("not_offered", "not listed by the server")
        return tool

    async def run(
        self, server: ToolServer, tool: OfferedTool, request: tool_messages.ToolRequested, limit: TimeLimit
    ) -> CallToolResult | InputRequired:
        """Call the tool, until `limit`. Raises ToolFailed."""
        attempt = CallAttempt(request.leg, request.responses, request.request_state)
        with _span(server, request):
            async with self._boundary(request):
                outcome = await server.call(tool, request.input, limit, attempt)
            if isinstance(outcome, InputRequired) and attempt.number >= MAX_CALL_ATTEMPTS:
                raise ToolFailed("asks_again")
            return outcome

    def finished(
        self,
        request: tool_messages.ToolRequested,
        outcome: CallToolResult | InputRequired | ToolFault,
        began: float,
        secrets: Sequence[str] = (),
    ) -> tool_messages.ToolFinished:
        """What to report, in words that a model may read; `began` is on `time.perf_counter()`.

        `secrets` are not among them, whatever the server answered.
        """
        seconds = time.perf_counter() - began
        asked: InputRequired | None = None
        match outcome:
            case InputRequired():
                asked, fault, detail = outcome, "", ""
                output = error_output(ToolFault("input").words)
            case ToolFault():
                output = error_output(outcome.words)
                fault, detail = str(outcome.kind), outcome.detail
            case CallToolResult():
                output = rendered(outcome)
                fault, detail = ("tool_error" if outcome.is_error else ""), ""
        output = redacted_json(output, secrets)
        if fault:
            _mark(get_current_span(), fault)
        ended = fault or ("asks" if asked else "ok")
        metrics.TOOL_CALLS.record(seconds, server=request.server, outcome=ended)
        ms = round(seconds * 1000)
        self._log.info(
            "tool_finished",
            call_id=request.call_id,
            server=request.server,
            tool=request.tool,
            ms=ms,
            chars=len(output),
            fault=fault,
            detail=detail,
            asks=0 if asked is None else len(asked.requests),
        )
        return tool_messages.ToolFinished(
            trace_id=request.trace_id,
            call_id=request.call_id,
            output=output,
            is_error=bool(fault) or asked is not None,
            ms=ms,
            leg=request.leg,
            input_requests=() if asked is None else asked.requests,
            request_state=None if asked is None else asked.request_state,
        )

    @asynccontextmanager
    async def _boundary(self, request: tool_messages.ToolRequested) -> AsyncIterator[None]:
        """Around what strangers answer: it can be interrupted, and nothing but ToolFailed comes out."""
        call = _Call((request.account_id, request.trace_id), asyncio.timeout(None))
        if self.interrupted:
            raise ToolFailed("stopped")
        if self._cancelled.get(call.run):
            raise ToolFailed("cancelled")
        self._running.add(call)
        try:
            async with call.scope:
                yield
        except TimeoutError as error:
            raise ToolFailed(call.why) from error
        except ToolFailed:
            raise
        except Exception as error:  # a fault of the MCP client must not bring the message back again
            self._log.exception("client_failed")
            raise ToolFailed("protocol", type(error).__name__) from error
        finally:
            self._running.discard(call)


@contextmanager
def _span(server: ToolServer, request: tool_messages.ToolRequested) -> Iterator[Span]:
    """The MCP client's span; its context goes to the server, in the call's `_meta`."""
    attributes = {
        genai.MCP_METHOD_NAME: "tools/call",
        genai.OPERATION_NAME: genai.EXECUTE_TOOL,
        genai.TOOL_NAME: request.tool,
        genai.MCP_PROTOCOL_VERSION: server.protocol_version,
    }
    with telemetry.tracer().start_as_current_span(
        f"tools/call {request.tool}", kind=SpanKind.CLIENT, attributes=attributes
    ) as span:
        try:
            yield span
        except ToolFailed as failed:
            _mark(span, failed.fault.kind)
            raise


def _mark(span: Span, fault: str) -> None:
    span.set_attribute(genai.ERROR_TYPE, fault)
    span.set_status(StatusCode.ERROR)
