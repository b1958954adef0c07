"""Offer tools to the model in one attempt, and make the calls of its replies fit to be stored and run.

A call that cannot be run is answered at once with an error for the model; it does not end the run.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from agentchat.contracts import events, wire
from agentchat.contracts.ids import make_call_id
from agentchat.contracts.values import ClientTool, ToolSpec
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import list_tool_calls
from agentchat.directory.agent_config import AgentConfig
from agentchat.directory.approval_policy import needs_approval
from agentchat.orchestrator.models import ModelFailure
from agentchat.orchestrator.run.run_log import RunRecorder
from agentchat.orchestrator.tools.tool_list_cache import ToolListings

MAX_CALLS = 64
MAX_INPUT_BYTES = 64 * 1024
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")

Block = dict[str, Any]


class OfferedTools:
    """The tools that the model is offered in one attempt at the log's run.

    An attempt keeps the tools of its first reply, and later attempts those that the log has: newer models
    refuse thinking that follows others. Only a call of an unknown tool has the list read again. In a replay,
    `given` are the tools instead of the listed ones; without `asks` no approval is requested, and no tool is
    the client's.
    """

    def __init__(
        self,
        listings: ToolListings,
        agent: AgentConfig,
        log: RunRecorder,
        *,
        given: Mapping[str, ToolSpec] | None = None,
        asks: bool = True,
    ) -> None:
        self.missing_servers: tuple[str, ...] = ()
        self._listings = listings
        self._agent = agent
        self._log = log
        self._offered = given
        self._may_refresh = given is None
        self._asks = asks
        self._call_ids: set[str] | None = None

    async def load(self) -> Mapping[str, ToolSpec]:
        """Return the agent's and the client's tools by the names that the model sees, the same in a run."""
        if self._offered is None:
            servers = tuple(server.name for server in self._agent.mcp_servers)
            run = self._log.run
            recorded = self._log.conversation.get_recorded_tools(run)
            if recorded is not None:
                warned = _list_warned_servers(run)
                self.missing_servers = tuple(each for each in warned if each in servers)
                self._offered = _index_by_name(recorded)
                return self._offered
            self._offered = self._add_client_tools(await self._listings.get_tools(self._agent))
            missing = self._listings.get_missing_servers(self._agent)
            self.missing_servers = servers if "*" in missing else missing
            if self.missing_servers and self._agent.on_tool_server_error == "fail":
                message = f"The agent's tool servers cannot be reached: {', '.join(self.missing_servers)}."
                raise ModelFailure("overloaded", message, kind="tool_server_unavailable")
        return self._offered

    async def look_up_unknown(self, names: Iterable[str]) -> None:
        """Read the list again, once in an attempt, if a name is not in it; keep the list if that is vain."""
        unknown = set(names) - (await self.load()).keys()
        if not unknown or not self._may_refresh or not self._agent.mcp_servers:
            return
        self._may_refresh = False
        listed = self._add_client_tools(await self._listings.refresh(self._agent))
        if unknown & listed.keys():
            self._offered = listed

    def build_warnings(self, now: str) -> list[events.WarningRaised]:
        """Build the warnings of servers that the run has none of yet."""
        known = _list_warned_servers(self._log.run)
        return [
            events.WarningRaised(
                trace_id=self._log.run.trace_id,
                at=now,
                code="tool_server_unavailable",
                subject=server,
                message=f"The tool server {server} cannot be reached.",
            )
            for server in self.missing_servers
            if server not in known
        ]

    def fit_blocks(self, blocks: Iterable[Block]) -> tuple[Block, ...]:
        """Return a reply's blocks with calls that can be sent back: see `make_sendable`."""
        if self._call_ids is None:  # read once in an attempt: in a prompt they are unique
            runs = self._log.conversation.runs
            self._call_ids = {call.call_id for run in runs for each in run.rounds for call in each.calls}
        return make_sendable(blocks, self._call_ids, self._client_tools)

    async def build_reply_calls(
        self, reply: events.ModelReplied, bad_inputs: Mapping[str, str]
    ) -> tuple[events.ToolCalled | events.ToolReturned, ...]:
        """Build the events of a reply's calls: see `build_call_events`."""
        await self.look_up_unknown(each["name"] for each in reply.blocks if each["type"] == "tool_use")
        offered = await self.load()
        held = self._find_needing_approval(offered)
        return build_call_events(reply, offered, bad_inputs, held, self._client_tools)

    def are_needed_later(self, blocks: Iterable[Block]) -> bool:
        """Return True if the log must have the tools: after thinking, or if a call waits for approval.

        Also if a missing server ends the agent's runs: a worker that takes the run over lists no tools then.
        Always recorded, a list of 18 KB was 28 % of the WAL of a chat with a tool call, and 5 % of its CPU.
        """
        if self._agent.on_tool_server_error == "fail":
            return True
        held = self._find_needing_approval(self._offered or {})
        return any(
            block["name"] in held if block["type"] == "tool_use" else block["type"] != "text"
            for block in blocks
        )

    @property
    def _client_tools(self) -> frozenset[str]:
        """The names of the client's tools; none in a replay, which has their results."""
        return frozenset(tool.name for tool in self._log.run.client_tools if self._asks)

    def _find_needing_approval(self, offered: Mapping[str, ToolSpec]) -> frozenset[str]:
        policies = {server.name: server.require_approval for server in self._agent.mcp_servers}
        if not self._asks or all(policy == "never" for policy in policies.values()):
            return frozenset()
        client_tools = self._client_tools
        return frozenset(
            name
            for name, spec in offered.items()
            if name not in client_tools and needs_approval(policies.get(spec.server, "always"), spec)
        )

    def _add_client_tools(self, own: Iterable[ToolSpec]) -> Mapping[str, ToolSpec]:
        return _index_by_name([*own, *map(_to_spec, self._log.run.client_tools)])


def _list_warned_servers(run: Run) -> list[str]:
    return [each.subject for each in run.warnings if each.code == "tool_server_unavailable"]


def _index_by_name(specs: Iterable[ToolSpec]) -> Mapping[str, ToolSpec]:
    return {spec.name: spec for spec in specs}


def _to_spec(tool: ClientTool) -> ToolSpec:
    return ToolSpec(
        name=tool.name,
        server="",
        tool=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
    )


def make_sendable(
    blocks: Iterable[Block], used_ids: set[str], client_tools: Collection[str] = ()
) -> tuple[Block, ...]:
    """Return the blocks with call ids that are unique in the thread and names that providers accept.

    `used_ids` are the ids that the thread has used; those of the blocks are added. A client finds the run by
    the ids of the calls of its tools, so these are unique among all calls.
    """
    kept: list[Block] = []
    for block in blocks:
        if block.get("type") == "tool_use":
            name = _sanitize_name(block["name"])
            call_id = make_call_id() if name in client_tools else _make_unique(block["id"], used_ids)
            block = block | {"id": call_id, "name": name}
            used_ids.add(block["id"])
        kept.append(block)
    return tuple(kept)


def _make_unique(call_id: str, seen: set[str]) -> str:
    if _ID.match(call_id) and call_id not in seen:
        return call_id
    number = len(seen) + 1
    while f"call_{number}" in seen:
        number += 1
    return f"call_{number}"


def _sanitize_name(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name)[:128] or "unnamed"


def build_call_events(
    reply: events.ModelReplied,
    offered: Mapping[str, ToolSpec],
    bad_inputs: Mapping[str, str],
    held: Collection[str] = (),
    client_tools: Collection[str] = (),
) -> tuple[events.ToolCalled | events.ToolReturned, ...]:
    """Build the events of a reply's calls, with error results for those that cannot be run.

    `bad_inputs` maps a call's id to what is wrong with its input. Calls of tools in `held` need an approval,
    those of `client_tools` are for the client, unless they cannot be run.
    """
    called: list[events.ToolCalled] = []
    answered: list[events.ToolReturned] = []
    for number, call in enumerate(list_tool_calls(reply)):
        problem = bad_inputs.get(call.call_id) or _find_problem(number, call, offered)
        is_client = call.name in client_tools and not problem
        called.append(msgspec.structs.replace(call, needs_approval=call.name in held, is_client=is_client))
        if problem:
            answered.append(_build_error_result(call, problem))
    return (*called, *answered)


def _find_problem(number: int, call: events.ToolCalled, offered: Mapping[str, ToolSpec]) -> str:
    if call.name not in offered:
        return f"Unknown tool {call.name}."
    if number >= MAX_CALLS:
        return f"At most {MAX_CALLS} tools can be called at once."
    if len(wire.encode(call.input)) > MAX_INPUT_BYTES:
        return f"The input is longer than {MAX_INPUT_BYTES} bytes."
    return ""


def _build_error_result(call: events.ToolCalled, problem: str) -> events.ToolReturned:
    return events.ToolReturned(
        trace_id=call.trace_id,
        at=call.at,
        round=call.round,
        call_id=call.call_id,
        output=wire.encode_tool_error(problem),
        is_error=True,
        ms=0,
    )
