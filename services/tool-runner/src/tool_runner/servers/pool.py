"""The tool servers in use: for each (account, address, credentials) one, with its session and its tools.

They are bounded in number, an account's to what is free, and closed when idle.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mcp_types import CallToolResult

from directory.agents import McpServer
from directory.tool_authorizations import ServerPlace
from net_guard import Guard
from runtime import logs
from runtime.fair_slots import FairSlots, KeySlots
from runtime.shared_task import shared
from tool_runner.authorization.tokens import AccessTokens, Authorizations
from tool_runner.faults import ToolFailed
from tool_runner.http.call_budget import LARGE_AT_ONCE
from tool_runner.http.transport import ToolServerTransport
from tool_runner.redaction import secrets_of
from tool_runner.servers.agent_servers import AuthorizedServer
from tool_runner.servers.elicitation import FIRST_CALL_ATTEMPT, CallAttempt, InputRequired
from tool_runner.servers.mcp_session import MakeSession, ServerConnection, ToolSession
from tool_runner.servers.server_failures import GRACE_SECONDS
from tool_runner.time_limit import TimeLimit
from tool_runner.tools.server_tool import LeftOut, OfferedTool, checked_tools

LISTING_SECONDS = 60.0
IDLE_SECONDS = 600.0
MAX_SERVERS = 256
_LIST_SECONDS = 8.0
_TIDY_SECONDS = 30.0
_NAMED = 5

Tools = Mapping[str, OfferedTool]
_Key = tuple[str, str, tuple[tuple[str, str], ...], str, bool]
"""Account, address, headers, authorisation, and whether it may ask persons."""


class ToolServer:
    """One tool server under one set of credentials."""

    def __init__(
        self,
        name: str,
        make_session: MakeSession,
        secrets: Sequence[str] = (),
        *,
        tokens: AccessTokens | None = None,
        listing_seconds: float = LISTING_SECONDS,
    ) -> None:
        self._secrets = secrets
        self._tokens = tokens
        self.users = 0
        self.used_at = _now()
        self._connection = ServerConnection(name, make_session)
        self._listing: asyncio.Task[Tools] | None = None
        self._tools: Tools = MappingProxyType({})
        self._listed_by: ToolSession | None = None
        self._listing_seconds = listing_seconds
        self._fresh_until = 0.0
        self._log = logs.get_logger("servers").bind(server=name)

    @property
    def secrets(self) -> Sequence[str]:
        return self._secrets if self._tokens is None else (*self._tokens.secrets, *self._secrets)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep it open within this block."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1
            self.used_at = _now()

    async def tools(self) -> Tools:
        """The tools by their own names, at most `listing_seconds` old. Raises ToolFailed."""
        self.used_at = _now()
        if self.used_at < self._fresh_until:
            return self._tools
        return await self._listed()

    async def call(
        self,
        tool: OfferedTool,
        arguments: dict[str, Any],
        limit: TimeLimit,
        attempt: CallAttempt = FIRST_CALL_ATTEMPT,
    ) -> CallToolResult | InputRequired:
        """Run a tool, until `limit`. Raises ToolFailed.

        It is sent a second time only where that does no harm: the server did not know the session, or the
        tool may be repeated and the connection broke.
        """
        try:
            async with limit.enforced(2 * GRACE_SECONDS):
                session = await self._ready()
                try:
                    return await session.call(tool.name, arguments, limit, attempt)
                except ToolFailed as failed:
                    harmless = failed.fault.kind == "expired" or (
                        tool.repeatable and failed.fault.kind == "broken"
                    )
                    if not harmless:
                        raise
                session = await self._ready()
                return await session.call(tool.name, arguments, limit, attempt)
        except TimeoutError as error:
            raise ToolFailed("timeout") from error

    @property
    def protocol_version(self) -> str:
        """What this service and the server speak, such as 2024-11-05; empty before they have met."""
        return self._connection.protocol_version

    async def close(self) -> None:
        """Close the session. Calls that still run fail."""
        if self._listing is not None:
            self._listing.cancel()
        await self._connection.close()

    async def _ready(self) -> ToolSession:
        """A session that has listed the tools: only so does it know which arguments go into headers too."""
        session = await self._connection.session()
        if session is not self._listed_by:
            await self._listed()
        return session

    async def _listed(self) -> Tools:
        if self._listing is None or self._listing.done():
            self._listing = shared(self._list())
        return await asyncio.shield(self._listing)

    async def _list(self) -> Tools:
        session = await self._connection.session()
        listed = await session.list_tools(_now() + _LIST_SECONDS)
        tools, left_out = await checked_tools(listed, self.secrets)
        if left_out:
            first = [f"{tool.name} ({tool.reason})" for tool in left_out[:_NAMED]]
            self._log.warning("tools_left_out", count=len(left_out), first=first)
        self._tools = MappingProxyType(tools)
        self._listed_by = session
        self._fresh_until = _now() + self._listing_seconds
        return self._tools


class ServerPool:
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

    def get(self, account_id: str, config: McpServer) -> ToolServer:
        """The server that an agent's configuration names. Raises ToolFailed if too many are in use."""
        authorized = config.authorization_id if isinstance(config, AuthorizedServer) else ""
        headers = tuple(sorted(config.headers.items()))
        key = (account_id, config.url, headers, authorized, config.elicitation)
        server = self._servers.get(key)
        if server is None:
            self._make_room(account_id)
            tokens = self._tokens(account_id, config)
            make = self._maker(account_id, config, tokens)
            server = self._servers[key] = ToolServer(
                config.name,
                make,
                secrets_of(config.headers),
                tokens=tokens,
                listing_seconds=self._listing_seconds,
            )
        return server

    async def look(self, account_id: str, config: McpServer) -> tuple[dict[str, OfferedTool], list[LeftOut]]:
        """The tools of a server by a session of its own, closed again, and those not offered.

        Raises ToolFailed.
        """
        tokens = self._tokens(account_id, config)
        session = self._maker(account_id, config, tokens)(False)
        try:
            await session.open()
            listed = await session.list_tools(_now() + _LIST_SECONDS)
            return await checked_tools(listed, session.secrets())
        finally:
            await session.close()

    async def tidy(self) -> None:
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            self.close_idle()

    def close_idle(self, idle_seconds: float = IDLE_SECONDS) -> None:
        for key, server in tuple(self._servers.items()):
            if server.users == 0 and server.used_at + idle_seconds <= _now():
                self._drop(key)

    async def close(self, seconds: float) -> None:
        """Close all, as far as that is done within `seconds`."""
        for key in tuple(self._servers):
            self._drop(key)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*self._closing)

    def _make_room(self, account_id: str) -> None:
        """For one more of the account, which may have as many as are free, as in `runtime.fair_slots`."""
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

    def _tokens(self, account_id: str, config: McpServer) -> AccessTokens | None:
        if not isinstance(config, AuthorizedServer) or self._authorizations is None:
            return None
        return self._authorizations.tokens(ServerPlace(account_id, config.agent_id, config.name), config.url)

    def _maker(self, account_id: str, config: McpServer, tokens: AccessTokens | None) -> MakeSession:
        def make(handshake: bool) -> ToolSession:
            large = KeySlots(self._large, account_id)
            transport = ToolServerTransport(self._guard, account_id, self._tls, large, tokens)
            check_link = self._guard.check_url if config.elicitation else None
            return ToolSession(
                config.url, config.headers, transport, handshake=handshake, check_link=check_link
            )

        return make


def _now() -> float:
    return asyncio.get_running_loop().time()
