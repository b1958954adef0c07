"""Load the tool servers of an agent version, with their headers unsealed.

They are read for each call, because a deleted agent id can be created again with the same version number and
other servers. Headers never reach the bus or the log.
"""

import msgspec

from agentchat.directory.agent_config import AgentConfig, McpServer, load_agent
from agentchat.directory.errors import RunEnded, SealBroken
from agentchat.directory.run_secrets import load_run_secrets
from agentchat.directory.secrets import Sealer
from agentchat.runtime.postgres import Pool
from agentchat.tool_runner.faults import ToolFailed


class AuthorizedServer(McpServer, frozen=True, kw_only=True):
    """A tool server at which the agent is authorised by OAuth: requests need a token."""

    agent_id: str
    authorization_id: str


class AgentServers:
    """The tool servers of all agents."""

    def __init__(self, pool: Pool, sealer: Sealer) -> None:
        self._pool = pool
        self._sealer = sealer

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
            _attach_authorization(agent, server) for server in agent.mcp_servers if not server.disabled
        )

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
