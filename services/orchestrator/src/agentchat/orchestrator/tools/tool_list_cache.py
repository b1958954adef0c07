"""List the tools of an agent version, as a tool-runner reports them, and cache the list."""

import asyncio
import time

import msgspec

from agentchat.bus.commands import list_tools
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.rpc import Rpc
from agentchat.contracts.tool_messages import ToolsListed
from agentchat.contracts.values import ToolSpec
from agentchat.directory.agent_config import AgentConfig
from agentchat.runtime import logs
from agentchat.runtime.bounded_map import BoundedMap
from agentchat.runtime.shared_task import start_shared_task

_GIVE_UP_SECONDS = 20.0
_BETWEEN_SECONDS = 0.5
_FRESH_SECONDS = 60.0
_FRESH_PARTIAL_SECONDS = 2.0
_VERSIONS = 1000

_Place = tuple[str, int, str]


class ToolsUnavailable(Exception):  # noqa: N818 - a state of things
    """No tool-runner reports the agent's tools."""


class _Kept(msgspec.Struct, frozen=True):
    """A cached list. `missing` are servers that could not be listed."""

    fresh_until: float
    tools: tuple[ToolSpec, ...]
    missing: tuple[str, ...]


class ToolListings:
    """Tool lists by agent version. One request per version is under way at a time."""

    def __init__(self, rpc: Rpc, *, give_up_seconds: float = _GIVE_UP_SECONDS) -> None:
        self._rpc = rpc
        self._give_up_seconds = give_up_seconds
        self._kept: BoundedMap[_Place, _Kept] = BoundedMap(_VERSIONS)
        self._asking: dict[_Place, asyncio.Task[tuple[ToolSpec, ...]]] = {}

    async def get_tools(self, agent: AgentConfig) -> tuple[ToolSpec, ...]:
        """Return the tools, in the order in which the model sees them. Raises ToolsUnavailable.

        A stale list is returned and refreshed in the background.
        """
        if not agent.mcp_servers:
            return ()
        self.fetch(agent)
        asking = self._asking.get(agent.key)
        kept = self._kept.get(agent.key)
        if kept is not None and (not kept.missing or asking is None):
            return kept.tools
        assert asking is not None, "what is not kept is requested"
        return await asyncio.shield(asking)

    async def refresh(self, agent: AgentConfig) -> tuple[ToolSpec, ...]:
        """Have a tool-runner list the tools again, and return them; () if no tool-runner answers."""
        try:
            listed = await list_tools(self._rpc, agent.account_id, agent.agent_id, agent.version, fresh=True)
        except BusUnavailable:
            return ()
        self._keep(agent.key, listed)
        return listed.tools

    def get_missing_servers(self, agent: AgentConfig) -> tuple[str, ...]:
        """Return the servers whose tools are missing in what `get_tools` returned last."""
        kept = self._kept.get(agent.key)
        return kept.missing if kept is not None else ()

    def fetch(self, agent: AgentConfig) -> None:
        """Request the list now, so that it is there when `get_tools` needs it."""
        place = agent.key
        kept = self._kept.get(place)
        fresh = kept is not None and kept.fresh_until > time.monotonic()
        if agent.mcp_servers and not fresh and place not in self._asking:
            task = self._asking[place] = start_shared_task(self._refresh(place, agent))
            task.add_done_callback(lambda _: self._asking.pop(place))

    async def _refresh(self, place: _Place, agent: AgentConfig) -> tuple[ToolSpec, ...]:
        listed = await self._request_listing(agent)
        self._keep(place, listed)
        return listed.tools

    def _keep(self, place: _Place, listed: ToolsListed) -> None:
        for server in listed.unavailable:
            logs.get_logger("tools").warning("server_unavailable", server=server.server, reason=server.reason)
        fresh = _FRESH_PARTIAL_SECONDS if listed.unavailable else _FRESH_SECONDS
        missing = tuple(server.server for server in listed.unavailable)
        self._kept.put(place, _Kept(time.monotonic() + fresh, listed.tools, missing))

    async def _request_listing(self, agent: AgentConfig) -> ToolsListed:
        """Request the list, for as long as a tool-runner takes to restart.

        Answered by `tool_runner.tools.listing.ToolLister`.
        """
        give_up = time.monotonic() + self._give_up_seconds
        while True:
            try:
                return await list_tools(self._rpc, agent.account_id, agent.agent_id, agent.version)
            except BusUnavailable as error:
                if time.monotonic() + _BETWEEN_SECONDS > give_up:
                    raise ToolsUnavailable(str(error)) from error
            await asyncio.sleep(_BETWEEN_SECONDS)
