"""Make a tool call.

Find its server and tool, and end it if it is interrupted or cancelled.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CallToolResult
from opentelemetry.trace import SpanKind, StatusCode

from agentchat.contracts import messages, tool_messages
from agentchat.runtime import genai, logs, telemetry
from agentchat.runtime.bounded_map import BoundedMap
from agentchat.tool_runner.faults import FaultKind, ToolFailed
from agentchat.tool_runner.servers.agent_servers import AgentServers
from agentchat.tool_runner.servers.elicitation import MAX_CALL_ATTEMPTS, CallAttempt, InputRequired
from agentchat.tool_runner.servers.server_pool import ServerPool
from agentchat.tool_runner.servers.tool_server import ToolServer
from agentchat.tool_runner.tools.listing import is_allowed
from agentchat.tool_runner.tools.server_tool import OfferedTool

_CANCELLED = 10_000


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
    """The running tool calls of this process. Methods raise ToolFailed or DatabaseUnavailable."""

    def __init__(self, agents: AgentServers, servers: ServerPool) -> None:
        self.interrupted = False
        self._agents = agents
        self._servers = servers
        self._running: set[_RunningCall] = set()
        self._cancelled: BoundedMap[tuple[str, str], bool] = BoundedMap(_CANCELLED)
        self._log = logs.get_logger("execute")

    def interrupt(self) -> None:
        """End running calls as `stopped`, and refuse those that start later."""
        self.interrupted = True
        for call in self._running:
            call.end("stopped")

    def cancel(self, request: messages.CancelRequested) -> None:
        """End the calls of a cancelled run, and refuse those that start later.

        The other side is bus.traces.cancel, which the gateway calls.
        """
        run = (request.account_id, request.trace_id)
        self._cancelled.put(run, True)
        for call in self._running:
            if call.run == run:
                call.end("cancelled")

    async def find_server(self, request: tool_messages.ToolRequested) -> ToolServer:
        """Return the server of a call, if its run has not ended and the agent may use the tool."""
        for config in await self._agents.load_servers(
            request.account_id, request.agent_id, request.agent_version, request.trace_id
        ):
            if config.name == request.server and is_allowed(config, request.tool):
                config = await self._agents.add_request_headers(config, request.account_id, request.trace_id)
                return self._servers.get(request.account_id, config)
        raise ToolFailed("not_offered", "no such server, or not allowed")

    async def find_tool(
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

    async def call(
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
        genai.MCP_METHOD_NAME: "tools/call",
        genai.OPERATION_NAME: genai.EXECUTE_TOOL,
        genai.TOOL_NAME: request.tool,
        genai.MCP_PROTOCOL_VERSION: server.protocol_version,
    }
    with telemetry.open_span(
        f"tools/call {request.tool}", kind=SpanKind.CLIENT, attributes=attributes
    ) as span:
        try:
            yield
        except ToolFailed as failed:
            span.set_attribute(genai.ERROR_TYPE, failed.fault.kind)
            span.set_status(StatusCode.ERROR)
            raise
