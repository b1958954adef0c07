"""The tool servers of agent versions, out of the directory, with their headers unsealed.

A version never changes, so what was read is kept for a minute; nothing of it goes to the bus or the log.
"""

import asyncio
from collections import OrderedDict

from directory.agents import McpServer, load_agent
from directory.errors import SealBroken
from directory.secrets import Sealer
from runtime.postgres import Pool
from tool_runner.faults import ToolFailed

_KEPT_SECONDS = 60.0
_KEPT = 1000

Key = tuple[str, str, int]


class Agents:
    """Reads agents for this process."""

    def __init__(self, pool: Pool, sealer: Sealer) -> None:
        self._pool = pool
        self._sealer = sealer
        self._kept: OrderedDict[Key, tuple[float, tuple[McpServer, ...]]] = OrderedDict()

    async def servers(self, account_id: str, agent_id: str, version: int) -> tuple[McpServer, ...]:
        """The servers of the account's agent that are not disabled, in its configured order.

        Raises ToolFailed where there is no such agent or its headers do not open, and DatabaseUnavailable.
        """
        key = (account_id, agent_id, version)
        now = asyncio.get_running_loop().time()
        until, servers = self._kept.get(key, (0.0, ()))
        if now < until:
            return servers
        try:
            agent = await load_agent(self._pool, account_id, agent_id, version, self._sealer)
        except SealBroken as error:
            raise ToolFailed("credentials", f"headers do not open: {error}") from error
        if agent is None:
            raise ToolFailed("not_offered", "no such agent")
        servers = tuple(server for server in agent.mcp_servers if not server.disabled)
        self._kept[key] = (now + _KEPT_SECONDS, servers)
        self._kept.move_to_end(key)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return servers
