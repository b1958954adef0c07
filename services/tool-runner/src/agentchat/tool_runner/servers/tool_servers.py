"""Keep the tool servers in use: one for each account, address and set of credentials.

Their number is limited and shared among accounts, and idle ones are closed. Each keeps its session open and
its list of tools fresh: a session that has ended is opened again, with back-off after failures, and one
attempt serves all waiting callers.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from mcp_types import CallToolResult

from agentchat.directory.agent_config import McpServer
from agentchat.directory.tool_authorizations import ToolServerKey
from agentchat.net_guard import Guard
from agentchat.runtime import logs
from agentchat.runtime.fair_slots import FairSlots, KeySlots
from agentchat.runtime.shared_task import start_shared_task
from agentchat.tool_runner.authorization.tokens import AccessTokens, Authorizations
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.http.call_budget import LARGE_AT_ONCE
from agentchat.tool_runner.http.transport import ToolServerTransport
from agentchat.tool_runner.servers.agent_servers import AuthorizedServer
from agentchat.tool_runner.servers.client_errors import GRACE_SECONDS
from agentchat.tool_runner.servers.elicitation import FIRST_CALL_ATTEMPT, CallAttempt, InputRequired
from agentchat.tool_runner.servers.mcp_session import ToolSession
from agentchat.tool_runner.tools.server_tool import LeftOut, OfferedTool, check_tools

IDLE_SECONDS = 600.0
REQUEST_IDLE_SECONDS = 60.0
"""The time for servers with the headers of one request: nobody else uses them."""
LISTING_SECONDS = 60.0
MAX_SERVERS = 256
_LIST_SECONDS = 8.0
_TIDY_SECONDS = 30.0
_BACK_OFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_NAMED = 5

_Key = tuple[str, str, tuple[tuple[str, str], ...], str, bool]
"""Account, address, headers, authorisation, and True if the server may ask people."""

Tools = Mapping[str, OfferedTool]
SessionFactory = Callable[[bool], ToolSession]
"""Make a new session. The argument is True if the server is known to want a handshake."""


class ServerPool:
    """The tool servers of this process."""

    def __init__(
        self,
        guard: Guard,
        tls: ssl.SSLContext,
        authorizations: Authorizations | None = None,
        *,
        max_servers: int = MAX_SERVERS,
        listing_seconds: float = LISTING_SECONDS,
    ) -> None:
        self._guard = guard
        self._tls = tls
        self._authorizations = authorizations
        self._max_servers = max_servers
        self._listing_seconds = listing_seconds
        self._large = FairSlots(LARGE_AT_ONCE)
        self._servers: dict[_Key, ToolServer] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def get(self, account_id: str, config: McpServer) -> "ToolServer":
        """Return the server of an agent's configuration. Raises ToolFailed if too many are in use."""
        authorized = config.authorization_id if isinstance(config, AuthorizedServer) else ""
        headers = tuple(sorted(config.headers.items()))
        key = (account_id, config.url, headers, authorized, config.elicitation)
        server = self._servers.get(key)
        if server is None:
            self._make_room(account_id)
            make_session = self._build_session_factory(account_id, config)
            server = ToolServer(
                config.name,
                make_session,
                listing_seconds=self._listing_seconds,
                idle_seconds=REQUEST_IDLE_SECONDS if config.headers_from_request else IDLE_SECONDS,
            )
            self._servers[key] = server
        return server

    async def inspect(
        self, account_id: str, config: McpServer
    ) -> tuple[dict[str, OfferedTool], list[LeftOut]]:
        """List a server's tools, and those not offered, on a new session. Raises ToolFailed."""
        session = self._build_session_factory(account_id, config)(False)
        try:
            await session.open()
            listed = await session.list_tools(asyncio.get_running_loop().time() + _LIST_SECONDS)
            return await check_tools(listed)
        finally:
            await session.close()

    async def tidy(self) -> None:
        """Close idle servers every 30 s, until cancelled."""
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            self.close_idle()

    def close_idle(self, idle_seconds: float | None = None) -> None:
        """Close the servers that were not used for `idle_seconds`; without it, each after its own time."""
        now = asyncio.get_running_loop().time()
        for key, server in tuple(self._servers.items()):
            seconds = server.idle_seconds if idle_seconds is None else idle_seconds
            if server.users == 0 and server.used_at + seconds <= now:
                self._drop(key)

    async def close(self, seconds: float) -> None:
        """Close all servers, for at most `seconds`."""
        for key in tuple(self._servers):
            self._drop(key)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*self._closing)

    def _make_room(self, account_id: str) -> None:
        """Close an idle server if the pool is full for the account.

        An account may have as many servers as are free, as in `runtime.fair_slots`.
        """
        held = sum(key[0] == account_id for key in self._servers)
        if held < self._max_servers - len(self._servers):
            return
        idle = [
            key
            for key, server in self._servers.items()
            if server.users == 0 and (held == 0 or key[0] == account_id)
        ]
        if not idle:
            raise ToolFailed("busy", f"{held} servers of the account are in use")
        self._drop(min(idle, key=lambda key: self._servers[key].used_at))

    def _drop(self, key: _Key) -> None:
        task = asyncio.create_task(self._servers.pop(key).close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _build_session_factory(self, account_id: str, config: McpServer) -> SessionFactory:
        tokens: AccessTokens | None = None
        if isinstance(config, AuthorizedServer) and self._authorizations is not None:
            tokens = self._authorizations.open_tokens(
                ToolServerKey(account_id, config.agent_id, config.name), config.url
            )

        def make_session(handshake: bool) -> ToolSession:
            large = KeySlots(self._large, account_id)
            secret_headers = frozenset(map(str.lower, config.headers_from_request))
            transport = ToolServerTransport(
                self._guard, account_id, self._tls, large, tokens, secret_headers=secret_headers
            )
            check_link = self._guard.check_url if config.elicitation else None
            return ToolSession(
                config.url, config.headers, transport, handshake=handshake, check_link=check_link
            )

        return make_session


class ToolServer:
    """A tool server under one set of credentials.

    `get_tools` and `call` open a session if none is alive.
    """

    def __init__(
        self,
        name: str,
        make_session: SessionFactory,
        *,
        listing_seconds: float = LISTING_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.users = 0
        self.idle_seconds = idle_seconds
        self.used_at = _read_clock()
        self._make_session = make_session
        self._handshake = False
        self._session: ToolSession | None = None
        self._opening: asyncio.Task[ToolSession] | None = None
        self._retiring: dict[ToolSession, asyncio.Task[None]] = {}
        self._failures = 0
        self._failed = ToolFailed("unreachable")
        self._retry_at = 0.0
        self._listing_seconds = listing_seconds
        self._listing: asyncio.Task[Tools] | None = None
        self._tools: Tools = MappingProxyType({})
        self._listed_by: ToolSession | None = None
        self._listed_at: float | None = None
        self._log = logs.get_logger("servers").bind(server=name)

    @contextlib.contextmanager
    def keep_open(self) -> Iterator[None]:
        """Keep the server in the pool within this block."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1
            self.used_at = _read_clock()

    @property
    def protocol_version(self) -> str:
        """Return the newest session's protocol version, such as 2024-11-05.

        Empty before the first.
        """
        return self._session.protocol_version if self._session is not None else ""

    async def get_tools(self, *, newer_than: float | None = None) -> Tools:
        """Return the tools by name, from a list at most `listing_seconds` old. Raises ToolFailed.

        With `newer_than` (on the loop's clock) an older list is read again.
        """
        self.used_at = _read_clock()
        oldest = self.used_at - self._listing_seconds if newer_than is None else newer_than
        if self._listed_at is not None and self._listed_at > oldest:
            return self._tools
        return await self._list_once()

    async def call(
        self,
        tool: OfferedTool,
        arguments: dict[str, Any],
        until: float,
        attempt: CallAttempt = FIRST_CALL_ATTEMPT,
    ) -> CallToolResult | InputRequired:
        """Run a tool, until `until` on the loop's clock. Raises ToolFailed.

        The call is sent a second time only if that is safe: the server has lost the session and said so, or
        the tool is repeatable and the connection broke or the session turns out to be lost.
        """
        try:
            async with asyncio.timeout_at(until + 2 * GRACE_SECONDS):
                session = await self._get_listed_session()
                try:
                    return await session.call(tool.name, arguments, until, attempt)
                except ToolFailed as failed:
                    if not await _can_be_sent_again(failed, tool, session):
                        raise
                session = await self._get_listed_session()
                return await session.call(tool.name, arguments, until, attempt)
        except TimeoutError as error:
            raise ToolFailed("timeout") from error

    async def close(self) -> None:
        """Close the session, and older ones that are still in use. Running calls fail."""
        for task in (self._listing, self._opening, *self._retiring.values()):
            if task is not None:
                task.cancel()
        sessions = [*self._retiring, *([self._session] if self._session is not None else [])]
        await asyncio.gather(*(session.close() for session in sessions))

    async def _get_listed_session(self) -> ToolSession:
        """Return a session that has listed the tools.

        Only then the client knows which arguments also go into headers.
        """
        session = await self._get_live_session()
        if session is not self._listed_by:
            await self._list_once()
        return session

    async def _list_once(self) -> Tools:
        if self._listing is None or self._listing.done():
            self._listing = start_shared_task(self._list())
        return await asyncio.shield(self._listing)

    async def _list(self) -> Tools:
        session = await self._get_live_session()
        try:
            listed = await session.list_tools(_read_clock() + _LIST_SECONDS)
        except ToolFailed as failed:
            if not await session.is_lost(failed):
                raise
            session = await self._get_live_session()
            listed = await session.list_tools(_read_clock() + _LIST_SECONDS)
        tools, left_out = await check_tools(listed)
        if left_out:
            first = [f"{tool.name} ({tool.reason})" for tool in left_out[:_NAMED]]
            self._log.warning("tools_left_out", count=len(left_out), first=first)
        self._tools = MappingProxyType(tools)
        self._listed_by = session
        self._listed_at = _read_clock()
        return self._tools

    async def _get_live_session(self) -> ToolSession:
        """Return a live session. Raises ToolFailed, without another attempt during the back-off."""
        session = self._session
        if session is not None and session.alive and not await session.is_lost():
            return session
        if self._opening is None or self._opening.done():
            if _read_clock() < self._retry_at:
                raise ToolFailed(self._failed.fault.kind, "not tried again yet")
            self._opening = start_shared_task(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> ToolSession:
        previous, self._session = self._session, None
        if previous is not None:
            self._retire(previous)
        session = self._make_session(self._handshake)
        try:
            await session.open()
        except ToolFailed as failed:
            self._failures += 1
            self._failed = failed
            delay = _BACK_OFF_SECONDS[min(self._failures, len(_BACK_OFF_SECONDS)) - 1]
            self._retry_at = _read_clock() + delay
            self._log.warning("server_unavailable", fault=str(failed), failures=self._failures)
            raise
        except asyncio.CancelledError:
            await session.close()
            raise
        self._failures = 0
        self._handshake = session.needs_handshake
        self._session = session
        self._log.info("session_opened", protocol_version=session.protocol_version)
        return session

    def _retire(self, session: ToolSession) -> None:
        """Close an old session once its running calls are done."""
        task = asyncio.create_task(session.close_when_unused())
        self._retiring[session] = task
        task.add_done_callback(lambda _: self._retiring.pop(session, None))


async def _can_be_sent_again(failed: ToolFailed, tool: OfferedTool, session: ToolSession) -> bool:
    is_lost = await session.is_lost(failed)
    return failed.fault.kind == "expired" or (tool.repeatable and (is_lost or failed.fault.kind == "broken"))


def _read_clock() -> float:
    return asyncio.get_running_loop().time()
