"""Make one tool call: find its server and its tool, and end it if it is interrupted or cancelled."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from mcp_types import CallToolResult
from opentelemetry.trace import SpanKind, StatusCode

from agentchat.contracts import messages, tool_messages
from agentchat.runtime import genai, logs, telemetry
from agentchat.runtime.bounded import BoundedMap
from agentchat.tool_runner.faults import Kind, ToolFailed
from agentchat.tool_runner.servers.agent_servers import AgentServers
from agentchat.tool_runner.servers.elicitation import MAX_CALL_ATTEMPTS, CallAttempt, InputRequired
from agentchat.tool_runner.servers.server_pool import ServerPool
from agentchat.tool_runner.servers.tool_server import ToolServer
from agentchat.tool_runner.tools.listing import is_allowed
from agentchat.tool_runner.tools.server_tool import OfferedTool

_CANCELLED = 10_000


@dataclass(eq=False)
class _Call:
    """A call that runs, and the fault it ends with if its scope ends."""

    run: tuple[str, str]
    scope: asyncio.Timeout
    fault: Kind = "stopped"

    def end(self, fault: Kind) -> None:
        self.fault = fault
        if not self.scope.expired():
            self.scope.reschedule(asyncio.get_running_loop().time())


class Executor:
    """Run tools on agents' servers. Every method raises ToolFailed; DatabaseUnavailable is the only other."""

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

    def cancel(self, request: messages.CancelRequested) -> None:
        """End the calls of a run that its caller has cancelled, and those that would begin later."""
        run = (request.account_id, request.trace_id)
        self._cancelled.put(run, True)
        for call in self._running:
            if call.run == run:
                call.end("cancelled")

    async def find_server(self, request: tool_messages.ToolRequested) -> ToolServer:
        """Return the server of a call if its run continues and the agent may use that tool."""
        for config in await self._agents.servers(
            request.account_id, request.agent_id, request.agent_version, request.trace_id
        ):
            if config.name == request.server and is_allowed(config, request.tool):
                return self._servers.get(request.account_id, config)
        raise ToolFailed("not_offered", "no such server, or not allowed")

    async def find_tool(
        self, server: ToolServer, request: tool_messages.ToolRequested, until: float
    ) -> OfferedTool:
        """Return the tool as its server lists it, within `until` on the loop's clock."""
        async with self._boundary(request):
            try:
                async with asyncio.timeout_at(until):
                    tool = (await server.tools()).get(request.tool)
            except TimeoutError as error:
                raise ToolFailed("timeout", "no listing") from error
        if tool is None:
            raise ToolFailed("not_offered", "not listed by the server")
        return tool

    async def call(
        self, server: ToolServer, tool: OfferedTool, request: tool_messages.ToolRequested, until: float
    ) -> CallToolResult | InputRequired:
        """Run the tool, within `until` on the loop's clock."""
        attempt = CallAttempt(request.leg, request.responses, request.request_state)
        with _span(server, request):
            async with self._boundary(request):
                outcome = await server.call(tool, request.input, until, attempt)
            if isinstance(outcome, InputRequired) and attempt.number >= MAX_CALL_ATTEMPTS:
                raise ToolFailed("asks_again")
            return outcome

    @asynccontextmanager
    async def _boundary(self, request: tool_messages.ToolRequested) -> AsyncIterator[None]:
        """Let what strangers answer be interrupted, and raise nothing but ToolFailed."""
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
            raise ToolFailed(call.fault) from error
        except ToolFailed:
            raise
        except Exception as error:  # a fault of the MCP client must not bring the message back again
            self._log.exception("client_failed")
            raise ToolFailed("protocol", type(error).__name__) from error
        finally:
            self._running.discard(call)


@contextmanager
def _span(server: ToolServer, request: tool_messages.ToolRequested) -> Iterator[None]:
    """Open the MCP client's span; its context goes to the server, in the call's `_meta`."""
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
