"""Load the tool servers of an agent version, with their headers unsealed.

They are read for each call, because a deleted agent id can be created again with the same version number and
other servers. Headers never reach the bus or the log.
"""

import time
from urllib.parse import quote

import msgspec

from agentchat.directory.agent_config import AgentConfig, McpServer, load_agent
from agentchat.directory.agent_to_agent import read_agent_name, seal_token
from agentchat.directory.errors import RunEnded, SealBroken
from agentchat.directory.run_secrets import load_run_secrets
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.bounded_map import BoundedMap
from agentchat.runtime.postgres import Pool, acquire_connection
from agentchat.tool_runner.faults import ToolFailed

_TOKENS = 1_000
_KEEP_SECONDS = 1_800.0
_IN_AN_HOUR = """
SELECT to_char((clock_timestamp() + interval '1 hour') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
"""


class AuthorizedServer(McpServer, frozen=True, kw_only=True):
    """A tool server at which the agent is authorised by OAuth: requests need a token."""

    agent_id: str
    authorization_id: str


class AgentServers:
    """The tool servers of all agents."""

    def __init__(self, pool: Pool, sealer: Sealer, gateway_url: str) -> None:
        self._pool = pool
        self._sealer = sealer
        self._gateway_url = gateway_url
        self._tokens: BoundedMap[str, tuple[str, float]] = BoundedMap(_TOKENS)

    async def load_servers(
        self, account_id: str, agent_id: str, version: int, run: str | None = None
    ) -> tuple[McpServer, ...]:
        """Return the agent's servers that are not disabled, in the configured order.

        Args:
            account_id: The account that owns the agent.
            agent_id: The agent.
            version: The version of the agent.
            run: The trace id of the run that a call belongs to.

        Raises:
            ToolFailed: The run has ended, the agent does not exist, or its headers cannot be unsealed.
            DatabaseUnavailable
        """
        try:
            agent = await load_agent(self._pool, account_id, agent_id, version, self._sealer, run)
        except RunEnded as ended:
            raise ToolFailed("ended") from ended
        except SealBroken as error:
            raise ToolFailed("credentials", f"headers do not open: {error}") from error
        if agent is None:
            raise ToolFailed("not_offered", "no such agent")
        return tuple(
            [
                await self._replace_agent(account_id, _attach_authorization(agent, server))
                for server in agent.mcp_servers
                if not server.disabled
            ]
        )

    async def _replace_agent(self, account_id: str, server: McpServer) -> McpServer:
        """Give a server that is another agent its address at a gateway, and a token."""
        agent = read_agent_name(server.url)
        if agent is None:
            return server
        url = f"{self._gateway_url}/mcp/v1/agents/{quote(agent, safe='')}"
        headers = {"Authorization": f"Bearer {await self._get_token(account_id)}"}
        return msgspec.structs.replace(server, url=url, headers=headers)

    async def _get_token(self, account_id: str) -> str:
        """Return the account's token: the same for half an hour, since sessions are kept by it."""
        token, until = self._tokens.get(account_id) or ("", 0.0)
        if time.monotonic() >= until:
            async with acquire_connection(self._pool) as conn:
                row = await (await conn.execute(_IN_AN_HOUR)).fetchone()
            assert row is not None
            token, until = seal_token(self._sealer, account_id, row[0]), time.monotonic() + _KEEP_SECONDS
            self._tokens.put(account_id, (token, until))
        return token

    async def add_request_headers(self, server: McpServer, account_id: str, trace_id: str) -> McpServer:
        """Return the server with the headers that its calls take from the secrets of the run's request.

        Raises:
            ToolFailed: A secret is missing, or they cannot be unsealed.
            DatabaseUnavailable
        """
        wanted = server.headers_from_request
        if not wanted:
            return server
        try:
            secrets = await load_run_secrets(self._pool, self._sealer, account_id, trace_id)
        except SealBroken as error:
            raise ToolFailed("secret", f"secrets do not open: {error}") from error
        missing = sorted(set(wanted.values()) - secrets.keys())
        if missing:
            raise ToolFailed("secret", f"the request lacks {', '.join(missing)}")
        replaced = {name.lower() for name in wanted}
        own = {name: value for name, value in server.headers.items() if name.lower() not in replaced}
        headers = own | {name: secrets[secret] for name, secret in wanted.items()}
        return msgspec.structs.replace(server, headers=headers)


def _attach_authorization(agent: AgentConfig, server: McpServer) -> McpServer:
    found = agent.authorizations.get(server.name)
    if found is None:
        return server
    fields = msgspec.structs.asdict(server)
    return AuthorizedServer(agent_id=agent.agent_id, authorization_id=found, **fields)
