"""Keep one ToolServer for each account, address and set of credentials.

Their number is limited and shared among accounts, and idle ones are closed.
"""

import asyncio
import contextlib
import ssl

from agentchat.directory.agent_config import McpServer
from agentchat.directory.tool_authorizations import ToolServerKey
from agentchat.net_guard import Guard
from agentchat.runtime.fair_slots import FairSlots, KeySlots
from agentchat.tool_runner.authorization.tokens import AccessTokens, Authorizations
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.http.call_budget import LARGE_AT_ONCE
from agentchat.tool_runner.http.transport import ToolServerTransport
from agentchat.tool_runner.servers.agent_servers import AuthorizedServer
from agentchat.tool_runner.servers.mcp_session import ToolSession
from agentchat.tool_runner.servers.tool_server import LISTING_SECONDS, SessionFactory, ToolServer
from agentchat.tool_runner.tools.server_tool import LeftOut, OfferedTool, check_tools

IDLE_SECONDS = 600.0
REQUEST_IDLE_SECONDS = 60.0
"""For servers whose headers are of one request: nobody else uses them."""
MAX_SERVERS = 256
_LIST_SECONDS = 8.0
_TIDY_SECONDS = 30.0

_Key = tuple[str, str, tuple[tuple[str, str], ...], str, bool]
"""Account, address, headers, authorisation, and True if the server may ask people."""


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

    def get(self, account_id: str, config: McpServer) -> ToolServer:
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
