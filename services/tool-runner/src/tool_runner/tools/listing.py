"""`chat.tools.list`: the tools of an agent version, from all its servers side by side."""

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from contracts import tool_messages, wire
from contracts.timings import TOOLS_LISTED_SECONDS
from contracts.values import ToolSpec
from directory.agents import McpServer
from tool_runner.faults import ToolFailed
from tool_runner.servers.agent_servers import AgentServers
from tool_runner.servers.pool import ServerPool
from tool_runner.tools.server_tool import OfferedTool


class Listing:
    def __init__(self, agents: AgentServers, servers: ServerPool) -> None:
        self._agents = agents
        self._servers = servers

    async def answer(self, data: bytes) -> bytes:
        """The bytes of a ListTools to those of its ToolsListed. Raises DecodeError, DatabaseUnavailable."""
        return wire.encode(await self.tools_of(wire.decode_message(tool_messages.ListTools, data)))

    async def tools_of(self, request: tool_messages.ListTools) -> tool_messages.ToolsListed:
        """Every tool that the agent may be offered, ordered by name, and the servers that are not there."""
        try:
            servers = await self._agents.servers(request.account_id, request.agent_id, request.agent_version)
        except ToolFailed as failed:
            reason = tool_messages.UnavailableServer(server="*", reason=failed.fault.words)
            return tool_messages.ToolsListed(tools=(), unavailable=(reason,))
        results = await asyncio.gather(*(self._listed(request.account_id, server) for server in servers))
        found: list[tuple[str, OfferedTool]] = []
        unavailable = []
        for server, result in zip(servers, results, strict=True):
            if isinstance(result, ToolFailed):
                unavailable.append(
                    tool_messages.UnavailableServer(server=server.name, reason=result.fault.words)
                )
            else:
                found += [(server.name, tool) for tool in result]
        return tool_messages.ToolsListed(tools=_specs(found), unavailable=tuple(unavailable))

    async def _listed(self, account_id: str, config: McpServer) -> list[OfferedTool] | ToolFailed:
        try:
            async with asyncio.timeout(TOOLS_LISTED_SECONDS):
                tools = await self._servers.get(account_id, config).tools()
        except ToolFailed as failed:
            return failed
        except TimeoutError:
            return ToolFailed("timeout")
        return [tool for tool in tools.values() if is_allowed(config, tool.name)]


def is_allowed(config: McpServer, tool: str) -> bool:
    return config.allowed_tools is None or tool in config.allowed_tools


def _specs(found: Iterable[tuple[str, OfferedTool]]) -> tuple[ToolSpec, ...]:
    by_place = {(server, tool.name): tool for server, tool in found}
    names = visible_names(tuple(by_place))
    specs = (
        ToolSpec(
            name=names[place],
            server=place[0],
            tool=place[1],
            description=tool.description,
            input_schema=tool.input_schema,
            read_only=tool.read_only,
            idempotent=tool.idempotent,
        )
        for place, tool in by_place.items()
    )
    return tuple(sorted(specs, key=lambda spec: spec.name))


MAX_LENGTH = 64  # ^[a-zA-Z0-9_-]{1,64}$ is what every provider takes: OpenAI 64, Anthropic 128
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST = 8

QualifiedName = tuple[str, str]
"""A server's name and a tool's own name."""


def visible_names(tools: Sequence[QualifiedName]) -> Mapping[QualifiedName, str]:
    """A name for each tool: the tool's own, `<server>_<tool>` where servers collide.

    Where even those are the same (two names that differ only in unfit characters), a digest of the tool is
    added. The order of `tools` makes no difference.
    """
    names = {tool: _fit(tool[1]) for tool in tools}
    for tool in _colliding(names):
        names[tool] = _fit("_".join(tool))
    for tool in _colliding(names):
        names[tool] = _ended(names[tool], "\0".join(tool))
    return names


def _colliding(names: Mapping[QualifiedName, str]) -> list[QualifiedName]:
    counts = Counter(names.values())
    return [tool for tool, name in names.items() if counts[name] > 1]


def _fit(name: str) -> str:
    fit = _UNFIT.sub("_", name)
    return fit if len(fit) <= MAX_LENGTH else _ended(fit, name)


def _ended(name: str, source: str) -> str:
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{name[: MAX_LENGTH - _DIGEST - 1]}_{digest}"
