"""Hold one MCP session.

One task enters and leaves the client, calls of many other tasks use it. The SDK's cancel scopes belong to the
task that opened them (python-sdk #79, #915), so only that task may close them.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from importlib.metadata import version
from typing import Any

import httpx2
import mcp_types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import URL_ELICITATION_REQUIRED, CallToolResult, InputRequiredResult
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from agentchat.runtime import logs
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.http.call_budget import RESPONSE_BYTES, start_budget
from agentchat.tool_runner.http.transport import ToolServerTransport
from agentchat.tool_runner.servers.client_errors import explain, limit_requests
from agentchat.tool_runner.servers.elicitation import (
    CallAttempt,
    ElicitationReader,
    ElicitationRound,
    InputRequired,
    on_elicitation,
)
from agentchat.tool_runner.tools.server_tool import MAX_TOOLS

OPEN_SECONDS = 8.0
_CLOSE_SECONDS = 2.0
_PING_SECONDS = 3.0
_PAGES = 20
_CLIENT = mcp_types.Implementation(name="agent-chat-service", version=version("agentchat-tool-runner"))
_MAX_AGE_SECONDS = 3600.0
# A server may ask to repeat the call with only its state: that is done at once, up to a limit.
_STATE_ONLY_CALLS = 10
_STATE_ONLY_SECONDS = 0.25
# The headers that the client sets, so an agent's configuration cannot.
_OURS = (
    {"accept", "accept-encoding", "content-type", "content-length", "transfer-encoding", "user-agent"}
    | {"host", "connection", "upgrade", "te", "trailer", "expect"}
    | {"mcp-session-id", "mcp-protocol-version", "last-event-id"}
)


class ToolSession:
    """A session with one server under one set of credentials; it is opened once."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        transport: ToolServerTransport,
        *,
        handshake: bool,
        check_link: Callable[[str], None] | None,
    ) -> None:
        """Prepare a session.

        Args:
            url: The address of the server.
            headers: The agent's headers for the server.
            transport: The HTTP transport of this session.
            handshake: True if the server is known to want one, so that it is not probed.
            check_link: Check a link that the server asks a person to open; None: it can ask nobody.
        """
        self._url = url
        self._transport = transport
        self._http = httpx2.AsyncClient(
            transport=transport, headers=_merge_headers(headers), trust_env=False, max_redirects=3
        )
        self._mode = "legacy" if handshake else "auto"
        self._reader = None if check_link is None else ElicitationReader(check_link)
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._opened_at = asyncio.get_running_loop().time()
        self._closing = asyncio.Event()
        self._running = 0
        self._unused = asyncio.Event()
        self._unused.set()
        self._task: asyncio.Task[None] | None = None
        # The client's own call_tool validates results against the server's output schema. Its patterns are
        # untrusted regular expressions, which could block the event loop.
        self._results: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(
            CallToolResult | InputRequiredResult
        )

    @property
    def alive(self) -> bool:
        """Return True if calls can be made.

        A session ends after an hour, because the client's state grows.
        """
        if self._task is None or self._task.done() or self._transport.session_lost:
            return False
        return asyncio.get_running_loop().time() < self._opened_at + _MAX_AGE_SECONDS

    async def is_lost(self, failed: ToolFailed | None = None) -> bool:
        """Return True if the session is lost: `failed` says so, or a ping after an unclear error does."""
        if failed is not None and failed.fault.kind == "expired":
            self._transport.session_lost = True
        if self._transport.session_doubtful and not self._transport.session_lost:
            self._transport.session_doubtful = False
            try:
                async with limit_requests(asyncio.get_running_loop().time() + _PING_SECONDS):
                    await self._opened.result().session.send_ping()
            except ToolFailed as failed:
                # A server that refuses the ping itself has answered in the session.
                self._transport.session_lost = failed.fault.kind in ("expired", "credentials", "status")
            self._transport.session_doubtful = False
        return self._transport.session_lost

    @property
    def protocol_version(self) -> str:
        """Return the protocol version of the session, such as 2024-11-05."""
        return self._opened.result().protocol_version

    @property
    def needs_handshake(self) -> bool:
        """Return True if the session's protocol begins with a handshake."""
        return self.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS

    async def open(self) -> None:
        """Connect and agree on a protocol, within OPEN_SECONDS. Raises ToolFailed."""
        self._task = asyncio.create_task(self._hold())
        await asyncio.wait((self._opened,))
        self._opened.result()

    async def close(self) -> None:
        """End the session and, if the protocol has that, notify the server; within 3 s."""
        self._closing.set()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=_CLOSE_SECONDS + 1.0)
            self._task.cancel()

    async def close_when_unused(self) -> None:
        """Close the session once its running calls are done."""
        await self._unused.wait()
        await self.close()

    async def list_tools(self, deadline: float) -> list[mcp_types.Tool]:
        """List the server's tools, page by page until more than MAX_TOOLS. Raises ToolFailed."""
        session = self._opened.result().session
        listed: list[mcp_types.Tool] = []
        cursor: str | None = None
        async with limit_requests(deadline):
            for _ in range(_PAGES):
                page = await session.list_tools(params=mcp_types.PaginatedRequestParams(cursor=cursor))
                listed += page.tools
                cursor = page.next_cursor
                if not cursor or len(listed) > MAX_TOOLS:
                    break
        return listed

    async def call(
        self, tool: str, arguments: dict[str, Any], until: float, attempt: CallAttempt
    ) -> CallToolResult | InputRequired:
        """Make one call, until `until` on the loop's clock. Raises ToolFailed.

        Cancelling the call notifies the server and does not disturb other calls of the session.
        """
        meta: Any = attempt.meta  # a TypedDict that takes any other key
        params = mcp_types.CallToolRequestParams(name=tool, arguments=arguments, _meta=meta)
        with self._count_use():
            if self._reader is not None and self.needs_handshake:
                return await self._call_and_answer(params, until, attempt, self._reader)
            params.input_responses, params.request_state = attempt.newest, attempt.request_state
            for _ in range(_STATE_ONLY_CALLS):
                async with limit_requests(until):
                    result = await self._send(params, until, attempt)
                if not isinstance(result, InputRequiredResult):
                    return result
                if self._reader is None:
                    break
                if result.input_requests:
                    return self._reader.read_required(result)
                await asyncio.sleep(_STATE_ONLY_SECONDS)
                params.input_responses, params.request_state = None, result.request_state
        raise ToolFailed("input")

    async def _call_and_answer(
        self,
        params: mcp_types.CallToolRequestParams,
        until: float,
        attempt: CallAttempt,
        reader: ElicitationReader,
    ) -> CallToolResult | InputRequired:
        """Make a call during which the server may ask. If it asked, its result is ignored."""
        asked = ElicitationRound(reader, attempt)
        try:
            async with limit_requests(until):
                try:
                    with asked.open():
                        result = await self._send(params, until, attempt)
                except MCPError as error:
                    if error.code != URL_ELICITATION_REQUIRED:
                        raise
                    return asked.read_refusal(error)
        except ToolFailed as failed:
            if failed.fault.kind == "refused" and (required := asked.required):
                return required
            raise
        if required := asked.required:
            return required
        assert isinstance(result, CallToolResult), "the other result is of later protocols"
        return result

    async def _send(
        self, params: mcp_types.CallToolRequestParams, until: float, attempt: CallAttempt
    ) -> CallToolResult | InputRequiredResult:
        """Send a call by the SDK, which uses `http.transport.ToolServerTransport.handle_async_request`."""
        return await self._opened.result().session.send_request(
            mcp_types.CallToolRequest(params=params),
            self._results,
            request_read_timeout_seconds=max(until - asyncio.get_running_loop().time(), 0.001),
            progress_callback=attempt.on_progress,
        )

    @contextmanager
    def _count_use(self) -> Iterator[None]:
        self._running += 1
        self._unused.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._unused.set()

    async def _hold(self) -> None:
        loop = asyncio.get_running_loop()
        budget = start_budget(loop.time() + OPEN_SECONDS)
        try:
            async with self._http, AsyncExitStack() as stack:
                async with asyncio.timeout_at(budget.deadline):
                    client = await stack.enter_async_context(self._build_client())
                self._opened.set_result(client)
                await self._closing.wait()
                budget = start_budget(loop.time() + _CLOSE_SECONDS)
        except Exception as error:  # noqa: BLE001 - outermost frame, where servers decide what fails
            failed = explain(budget, error)
            if self._opened.done():
                logs.get_logger("session").warning("session_ended", fault=str(failed))
            else:
                self._opened.set_exception(failed)
        finally:
            if not self._opened.done():
                self._opened.cancel()

    def _build_client(self) -> Client:
        transport = streamable_http_client(
            self._url, http_client=self._http, max_sse_event_size=RESPONSE_BYTES
        )
        return Client(
            transport,
            mode=self._mode,
            cache=None,
            client_info=_CLIENT,
            read_timeout_seconds=OPEN_SECONDS,
            elicitation_callback=None if self._reader is None else on_elicitation,
        )


def _merge_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Merge the agent's headers with ours, which refuse compression (bombs)."""
    theirs = {name: value for name, value in headers.items() if name.lower() not in _OURS}
    ours = {"accept-encoding": "identity", "user-agent": f"{_CLIENT.name}/{_CLIENT.version}"}
    return theirs | ours
