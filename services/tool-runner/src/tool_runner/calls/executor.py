"""Makes one tool call: finds its server and its tool, and ends it where it is interrupted or cancelled."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from mcp_types import CallToolResult
from msgspec.structs import replace
from opentelemetry.trace import SpanKind, StatusCode

from contracts import messages, tool_messages
from runtime import genai, logs, telemetry
from runtime.bounded import BoundedMap
from tool_runner.faults import Kind, ToolFailed, ToolFault
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

    async def outcome(
        self,
        server: ToolServer,
        request: tool_messages.ToolRequested,
        limit: TimeLimit,
        begin: Callable[[], Awaitable[bool]],
    ) -> CallToolResult | InputRequired | ToolFault | None:
        """What came of the call, by `limit`; None if `begin`, which is asked before a call that must not run
        twice, returns False.

        Raises ToolFailed where it did not begin here, or was stopped and may be repeated; DatabaseUnavailable
        where `begin` does.
        """
        async with self._boundary(request):
            try:
                async with asyncio.timeout_at(limit.until):
                    tool = (await server.tools()).get(request.tool)
            except TimeoutError as error:
                raise ToolFailed("timeout", "no listing") from error
        if tool is None:
            raise ToolFailed("not_offered", "not listed by the server")
        try:
            if not tool.repeatable and not await begin():
                return None
            return await self._call(server, tool, request, limit)
        except ToolFailed as failed:
            if failed.fault.kind == "stopped" and tool.repeatable:
                raise
            return replace(failed.fault, writing=not tool.repeatable)

    async def _call(
        self, server: ToolServer, tool: OfferedTool, request: tool_messages.ToolRequested, limit: TimeLimit
    ) -> CallToolResult | InputRequired:
        attempt = CallAttempt(request.leg, request.responses, request.request_state)
        with _span(server, request):
            async with self._boundary(request):
                outcome = await server.call(tool, request.input, limit, attempt)
            if isinstance(outcome, InputRequired) and attempt.number >= MAX_CALL_ATTEMPTS:
                raise ToolFailed("asks_again")
            return outcome

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
def _span(server: ToolServer, request: tool_messages.ToolRequested) -> Iterator[None]:
    """The MCP client's span; its context goes to the server, in the call's `_meta`."""
    attributes = {
        genai.MCP_METHOD_NAME: "tools/call",
        genai.OPERATION_NAME: genai.EXECUTE_TOOL,
        genai.TOOL_NAME: request.tool,
        genai.MCP_PROTOCOL_VERSION: server.protocol_version,
    }
    with telemetry.span(f"tools/call {request.tool}", kind=SpanKind.CLIENT, attributes=attributes) as span:
        try:
            yield
        except ToolFailed as failed:
            span.set_attribute(genai.ERROR_TYPE, failed.fault.kind)
            span.set_status(StatusCode.ERROR)
            raise
