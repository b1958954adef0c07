"""One MCP session: a client that one task enters, holds and leaves, used by calls of many other tasks.

The SDK's scopes belong to the task that opened them (python-sdk #79, #915), so nobody else closes them.
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
from agentchat.tool_runner.http.call_budget import RESPONSE_BYTES, begin_budget
from agentchat.tool_runner.http.transport import ToolServerTransport
from agentchat.tool_runner.servers.elicitation import (
    Asking,
    CallAttempt,
    ElicitationReader,
    InputRequired,
    on_elicitation,
)
from agentchat.tool_runner.servers.failures import explain, requests_until
from agentchat.tool_runner.tools.server_tool import MAX_TOOLS

OPEN_SECONDS = 8.0
_CLOSE_SECONDS = 2.0
_PAGES = 20
_CLIENT = mcp_types.Implementation(name="agent-chat-service", version=version("agentchat-tool-runner"))
_MAX_AGE_SECONDS = 3600.0
# A server may have a call made again with its state alone: that it does at once, and not for ever.
_STATE_ONLY_CALLS = 10
_STATE_ONLY_SECONDS = 0.25
# What an agent's headers may not say, because the client does.
_OURS = (
    {"accept", "accept-encoding", "content-type", "content-length", "transfer-encoding", "user-agent"}
    | {"host", "connection", "upgrade", "te", "trailer", "expect"}
    | {"mcp-session-id", "mcp-protocol-version", "last-event-id"}
)


class ToolSession:
    """A session with one server under one set of credentials, opened once and not again after it ended."""

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
            handshake: The server is known to want one, so it is not probed for the stateless protocol.
            check_link: Checks links that the server asks a person to open, as `ElicitationReader` has it;
                None: the server learns that nobody can be asked.
        """
        self._url = url
        self._transport = transport
        self._http = httpx2.AsyncClient(
            transport=transport, headers=_sent(headers), trust_env=False, max_redirects=3
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
        # The client's own call_tool checks results against the server's output schema, whose patterns are
        # a stranger's regular expressions; that check could delay all of the process, and is the server's.
        self._results: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(
            CallToolResult | InputRequiredResult
        )

    @property
    def alive(self) -> bool:
        """Whether calls can be made. An old one is given up, with what the client has piled up in it."""
        if self._task is None or self._task.done() or self._transport.session_lost:
            return False
        return asyncio.get_running_loop().time() < self._opened_at + _MAX_AGE_SECONDS

    @property
    def protocol_version(self) -> str:
        """The version that both sides speak, such as 2024-11-05."""
        return self._opened.result().protocol_version

    @property
    def needs_handshake(self) -> bool:
        """Whether the server speaks a protocol that begins with a handshake."""
        return self.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS

    async def open(self) -> None:
        """Connect and agree on a protocol, within OPEN_SECONDS. Raises ToolFailed."""
        self._task = asyncio.create_task(self._hold())
        await asyncio.wait((self._opened,))
        self._opened.result()

    async def close(self) -> None:
        """End the session, and notify the server where it wants that, within a few seconds."""
        self._closing.set()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=_CLOSE_SECONDS + 1.0)
            self._task.cancel()

    async def close_when_unused(self) -> None:
        """Close it once the calls that run on it are done."""
        await self._unused.wait()
        await self.close()

    async def list_tools(self, deadline: float) -> list[mcp_types.Tool]:
        """List the server's tools, up to one more than MAX_TOOLS or the end of a page. Raises ToolFailed."""
        session = self._opened.result().session
        listed: list[mcp_types.Tool] = []
        cursor: str | None = None
        async with requests_until(deadline):
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

        Cancelling it notifies the server and leaves the session to others.
        """
        params = mcp_types.CallToolRequestParams(name=tool, arguments=arguments)
        with self._in_use():
            if self._reader is not None and self.needs_handshake:
                return await self._call_and_answer(params, until, Asking(self._reader, attempt))
            params.input_responses, params.request_state = attempt.newest, attempt.request_state
            for _ in range(_STATE_ONLY_CALLS):
                async with requests_until(until):
                    result = await self._send(params, until)
                if not isinstance(result, InputRequiredResult):
                    return result
                if self._reader is None:
                    break
                if result.input_requests:
                    return self._reader.required(result)
                await asyncio.sleep(_STATE_ONLY_SECONDS)
                params.input_responses, params.request_state = None, result.request_state
        raise ToolFailed("input")

    async def _call_and_answer(
        self, params: mcp_types.CallToolRequestParams, until: float, asked: Asking
    ) -> CallToolResult | InputRequired:
        """Make a call in which the server may ask. What it then returns for want of answers is no result."""
        try:
            async with requests_until(until):
                try:
                    with asked.open():
                        result = await self._send(params, until)
                except MCPError as error:
                    if error.code != URL_ELICITATION_REQUIRED:
                        raise
                    return asked.refused(error)
        except ToolFailed as failed:
            if failed.fault.kind == "refused" and (required := asked.required):
                return required
            raise
        if required := asked.required:
            return required
        assert isinstance(result, CallToolResult), "the other result is of later protocols"
        return result

    async def _send(
        self, params: mcp_types.CallToolRequestParams, until: float
    ) -> CallToolResult | InputRequiredResult:
        return await self._opened.result().session.send_request(
            mcp_types.CallToolRequest(params=params),
            self._results,
            request_read_timeout_seconds=max(until - asyncio.get_running_loop().time(), 0.001),
        )

    @contextmanager
    def _in_use(self) -> Iterator[None]:
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
        budget = begin_budget(loop.time() + OPEN_SECONDS)
        try:
            async with self._http, AsyncExitStack() as stack:
                async with asyncio.timeout_at(budget.deadline):
                    client = await stack.enter_async_context(self._client())
                self._opened.set_result(client)
                await self._closing.wait()
                budget = begin_budget(loop.time() + _CLOSE_SECONDS)
        except Exception as error:  # noqa: BLE001 - the outermost frame of this task, where strangers decide
            failed = explain(budget, error)
            if self._opened.done():
                logs.get_logger("session").warning("session_ended", fault=str(failed))
            else:
                self._opened.set_exception(failed)
        finally:
            if not self._opened.done():
                self._opened.cancel()

    def _client(self) -> Client:
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


def _sent(headers: Mapping[str, str]) -> dict[str, str]:
    """Return an agent's headers for its server, and ours: a compressed response could be a bomb."""
    theirs = {name: value for name, value in headers.items() if name.lower() not in _OURS}
    ours = {"accept-encoding": "identity", "user-agent": f"{_CLIENT.name}/{_CLIENT.version}"}
    return theirs | ours
