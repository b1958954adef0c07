"""The tool servers of agent versions, out of the directory, with their headers unsealed.

They are read each time: an id that was deleted may come again, with the same version and other servers.
Nothing of them goes to the bus or the log.
"""

import msgspec

from agentchat.directory.agent_config import AgentConfig, McpServer, load_agent
from agentchat.directory.errors import RunEnded, SealBroken
from agentchat.directory.secrets import Sealer
from agentchat.runtime.postgres import Pool
from agentchat.tool_runner.faults import ToolFailed


class AuthorizedServer(McpServer, frozen=True, kw_only=True):
    """A tool server at which the agent is authorised by OAuth: it is asked with a token, or not at all."""

    agent_id: str
    authorization_id: str


class AgentServers:
    def __init__(self, pool: Pool, sealer: Sealer) -> None:
        self._pool = pool
        self._sealer = sealer

    async def servers(
        self, account_id: str, agent_id: str, version: int, run: str | None = None
    ) -> tuple[McpServer, ...]:
        """The servers of the account's agent that are not disabled, in its configured order.

        `run` is the trace of the run that a call is for. Raises ToolFailed where that is over, where there is
        no such agent or its headers do not open, and DatabaseUnavailable.
        """
        try:
            agent = await load_agent(self._pool, account_id, agent_id, version, self._sealer, run)
        except RunEnded as ended:
            raise ToolFailed("ended") from ended
        except SealBroken as error:
            raise ToolFailed("credentials", f"headers do not open: {error}") from error
        if agent is None:
            raise ToolFailed("not_offered", "no such agent")
        return tuple(_authorized(agent, server) for server in agent.mcp_servers if not server.disabled)


def _authorized(agent: AgentConfig, server: McpServer) -> McpServer:
    found = agent.authorizations.get(server.name)
    if found is None:
        return server
    fields = msgspec.structs.asdict(server)
    return AuthorizedServer(agent_id=agent.agent_id, authorization_id=found, **fields)
