"""`chat.tools.check`: an agent's tool servers, each connected to again, and what of it works."""

import asyncio
import time

import msgspec

from contracts import tool_messages, wire
from contracts.timings import CHECK_SECONDS
from directory.agents import McpServer
from directory.approval_policy import ApprovalRules
from tool_runner.faults import ToolFailed
from tool_runner.servers.agent_servers import AgentServers
from tool_runner.servers.pool import ServerPool
from tool_runner.tools.listing import is_allowed
from tool_runner.tools.server_tool import LeftOut, OfferedTool

_NAMED = 5
_SILENT = "The tool server did not answer in time."


class Checking:
    def __init__(self, agents: AgentServers, servers: ServerPool) -> None:
        self._agents = agents
        self._servers = servers

    async def answer(self, data: bytes) -> bytes:
        """The bytes of a CheckTools to those of its ToolsChecked. Raises DecodeError, DatabaseUnavailable."""
        return wire.encode(await self.check(wire.decode_message(tool_messages.CheckTools, data)))

    async def check(self, request: tool_messages.CheckTools) -> tool_messages.ToolsChecked:
        try:
            servers = await self._agents.servers(request.account_id, request.agent_id, request.agent_version)
        except ToolFailed as failed:
            return tool_messages.ToolsChecked(servers=(_unread(failed),))
        checks = (self._checked(request.account_id, server) for server in servers)
        return tool_messages.ToolsChecked(servers=tuple(await asyncio.gather(*checks)))

    async def _checked(self, account_id: str, config: McpServer) -> tool_messages.ServerCheck:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                tools, left_out = await self._servers.look(account_id, config)
        except ToolFailed as failed:
            found = tool_messages.ServerCheck(name=config.name, ok=False, detail=_words(failed))
        except TimeoutError:
            found = tool_messages.ServerCheck(name=config.name, ok=False, detail=_SILENT)
        else:
            found = _listed(config, tools, left_out)
        return msgspec.structs.replace(found, ms=round((time.perf_counter() - began) * 1000))


def _listed(
    config: McpServer, tools: dict[str, OfferedTool], left_out: list[LeftOut]
) -> tool_messages.ServerCheck:
    policy = config.require_approval
    asked = policy.names if isinstance(policy, ApprovalRules) else ()
    named = dict.fromkeys((*(config.allowed_tools or ()), *asked))
    missing = tuple(name for name in named if name not in tools)
    unfit = [f"{tool.name} ({tool.reason})" for tool in left_out if is_allowed(config, tool.name)]
    sentences = []
    if missing:
        sentences.append(f"Named in allowed_tools or require_approval, and no tool here: {_some(missing)}.")
    if unfit:
        sentences.append(f"Not offered to the model: {_some(unfit)}.")
    return tool_messages.ServerCheck(
        name=config.name,
        ok=not missing,
        tools=len(tools),
        allowed=sum(is_allowed(config, name) for name in tools),
        missing=missing,
        detail=" ".join(sentences),
    )


def _words(failed: ToolFailed) -> str:
    if failed.fault.kind in ("authorization", "scope"):
        return f"Needs authorisation: {failed.fault.detail or 'nothing authorises the agent'}."
    return _SILENT if failed.fault.kind == "timeout" else failed.fault.words


def _unread(failed: ToolFailed) -> tool_messages.ServerCheck:
    words = {
        "credentials": "The servers' headers cannot be read: they were sealed under another secret key.",
        "not_offered": "There is no such agent, or no such version of it.",
    }
    return tool_messages.ServerCheck(
        name="*", ok=False, detail=words.get(failed.fault.kind, failed.fault.words)
    )


def _some(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
