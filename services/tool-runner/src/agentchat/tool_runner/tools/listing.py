"""Answer `chat.tools.list` and `chat.tools.check`: list or check the tools of an agent.

The requests come from bus.commands: the orchestrator lists tools, the administration checks them.
"""

import asyncio
import hashlib
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from agentchat.contracts import tool_messages, wire
from agentchat.contracts.timings import CHECK_SECONDS, TOOLS_LISTED_SECONDS
from agentchat.contracts.values import ToolSpec
from agentchat.directory.agent_config import McpServer
from agentchat.directory.approval_policy import ApprovalRules
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.servers.agent_servers import AgentServers
from agentchat.tool_runner.servers.tool_servers import ServerPool
from agentchat.tool_runner.tools.server_tool import LeftOut, OfferedTool

_NAMED = 5
_SILENT = "The tool server did not answer in time."


class ToolLister:
    """Lists and checks the tools of an agent version, all its servers at the same time."""

    def __init__(self, agents: AgentServers, servers: ServerPool) -> None:
        self._agents = agents
        self._servers = servers

    async def answer_list(self, data: bytes) -> bytes:
        """Decode a ListTools, return an encoded ToolsListed.

        Raises DecodeError, DatabaseUnavailable.
        """
        return wire.encode(await self.list_tools(wire.decode_message(tool_messages.ListTools, data)))

    async def list_tools(self, request: tool_messages.ListTools) -> tool_messages.ToolsListed:
        """Return the tools that the agent may use, ordered by name, and the unavailable servers."""
        try:
            servers = await self._agents.load_servers(
                request.account_id, request.agent_id, request.agent_version
            )
        except ToolFailed as failed:
            reason = tool_messages.UnavailableServer(server="*", reason=failed.fault.words)
            return tool_messages.ToolsListed(tools=(), unavailable=(reason,))
        results = await asyncio.gather(*(self._list_server(request, server) for server in servers))
        found: list[tuple[str, OfferedTool]] = []
        unavailable = []
        for server, result in zip(servers, results, strict=True):
            if isinstance(result, ToolFailed):
                unavailable.append(
                    tool_messages.UnavailableServer(server=server.name, reason=result.fault.words)
                )
            else:
                found += [(server.name, tool) for tool in result]
        return tool_messages.ToolsListed(tools=_build_specs(found), unavailable=tuple(unavailable))

    async def _list_server(
        self, request: tool_messages.ListTools, config: McpServer
    ) -> list[OfferedTool] | ToolFailed:
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(TOOLS_LISTED_SECONDS):
                server = self._servers.get(request.account_id, config)
                tools = await server.get_tools(newer_than=began if request.fresh else None)
        except ToolFailed as failed:
            return failed
        except TimeoutError:
            return ToolFailed("timeout")
        return [tool for tool in tools.values() if is_allowed(config, tool.name)]

    async def answer_check(self, data: bytes) -> bytes:
        """Connect to each server again: decode a CheckTools, return an encoded ToolsChecked.

        Raises DecodeError, DatabaseUnavailable.
        """
        return wire.encode(await self.check(wire.decode_message(tool_messages.CheckTools, data)))

    async def check(self, request: tool_messages.CheckTools) -> tool_messages.ToolsChecked:
        """Check all servers of an agent version at the same time. Raises DatabaseUnavailable."""
        try:
            servers = await self._agents.load_servers(
                request.account_id, request.agent_id, request.agent_version
            )
        except ToolFailed as failed:
            return tool_messages.ToolsChecked(servers=(_report_unreadable(failed),))
        checks = (self._check_server(request.account_id, server) for server in servers)
        return tool_messages.ToolsChecked(servers=tuple(await asyncio.gather(*checks)))

    async def _check_server(self, account_id: str, config: McpServer) -> tool_messages.ServerCheck:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                tools, left_out = await self._servers.inspect(account_id, config)
        except ToolFailed as failed:
            found = tool_messages.ServerCheck(name=config.name, ok=False, detail=_explain(failed))
        except TimeoutError:
            found = tool_messages.ServerCheck(name=config.name, ok=False, detail=_SILENT)
        else:
            found = _build_server_check(config, tools, left_out)
        return msgspec.structs.replace(found, ms=round((time.perf_counter() - began) * 1000))


def is_allowed(config: McpServer, tool: str) -> bool:
    """Return True if the agent may use the tool of this server."""
    return config.allowed_tools is None or tool in config.allowed_tools


def _build_specs(found: Iterable[tuple[str, OfferedTool]]) -> tuple[ToolSpec, ...]:
    by_place = {(server, tool.name): tool for server, tool in found}
    names = choose_visible_names(tuple(by_place))
    specs = (
        ToolSpec(
            name=names[place],
            server=place[0],
            tool=place[1],
            description=tool.description,
            input_schema=tool.input_schema,
            read_only=tool.read_only,
            idempotent=tool.idempotent,
            destructive=tool.destructive,
            open_world=tool.open_world,
        )
        for place, tool in by_place.items()
    )
    return tuple(sorted(specs, key=lambda spec: spec.name))


MAX_LENGTH = 64  # every provider accepts ^[a-zA-Z0-9_-]{1,64}$: OpenAI 64, Anthropic 128
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST = 8

QualifiedName = tuple[str, str]
"""A server's name and a tool's own name."""


def choose_visible_names(tools: Sequence[QualifiedName]) -> Mapping[QualifiedName, str]:
    """Choose a name for each tool: its own, or `<server>_<tool>` if servers collide.

    If even those are equal (names that differ only in characters that providers refuse), a digest is
    appended. The order of `tools` makes no difference.
    """
    names = {tool: _fit(tool[1]) for tool in tools}
    for tool in _find_collisions(names):
        names[tool] = _fit("_".join(tool))
    for tool in _find_collisions(names):
        names[tool] = _append_digest(names[tool], "\0".join(tool))
    return names


def _find_collisions(names: Mapping[QualifiedName, str]) -> list[QualifiedName]:
    counts = Counter(names.values())
    return [tool for tool, name in names.items() if counts[name] > 1]


def _fit(name: str) -> str:
    fit = _UNFIT.sub("_", name)
    return fit if len(fit) <= MAX_LENGTH else _append_digest(fit, name)


def _append_digest(name: str, source: str) -> str:
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{name[: MAX_LENGTH - _DIGEST - 1]}_{digest}"


def _build_server_check(
    config: McpServer, tools: dict[str, OfferedTool], left_out: list[LeftOut]
) -> tool_messages.ServerCheck:
    policy = config.require_approval
    asked = policy.names if isinstance(policy, ApprovalRules) else ()
    named = dict.fromkeys((*(config.allowed_tools or ()), *asked))
    missing = tuple(name for name in named if name not in tools)
    unfit = [f"{tool.name} ({tool.reason})" for tool in left_out if is_allowed(config, tool.name)]
    sentences = []
    if missing:
        sentences.append(
            f"The server has no such tool (allowed_tools, require_approval): {_list_some(missing)}."
        )
    if unfit:
        sentences.append(f"Not offered to the model: {_list_some(unfit)}.")
    return tool_messages.ServerCheck(
        name=config.name,
        ok=not missing,
        tools=len(tools),
        allowed=sum(is_allowed(config, name) for name in tools),
        missing=missing,
        detail=" ".join(sentences),
    )


def _explain(failed: ToolFailed) -> str:
    if failed.fault.kind == "authorization":
        return f"Needs authorisation: {failed.fault.detail or 'nothing authorises the agent'}."
    return _SILENT if failed.fault.kind == "timeout" else failed.fault.words


def _report_unreadable(failed: ToolFailed) -> tool_messages.ServerCheck:
    words = {
        "credentials": "The servers' headers cannot be read: they were sealed under another secret key.",
        "not_offered": "There is no such agent, or no such version of it.",
    }
    return tool_messages.ServerCheck(
        name="*", ok=False, detail=words.get(failed.fault.kind, failed.fault.words)
    )


def _list_some(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
