"""The model and the tools: they do what the plan says, and look at what they are asked."""

import asyncio
import contextlib
from typing import Any

import mcp_types

from agentchat.contracts import events
from agentchat.contracts.tool_messages import ToolsListed
from agentchat.contracts.values import ToolSpec, Usage
from agentchat.directory.agent_config import AgentConfig, Fallback, McpServer
from agentchat.directory.compaction_settings import PROMPT, Compaction
from agentchat.orchestrator.models import Credentials, Meter, ModelCall, ModelFailure, ModelReply, OnText
from agentchat.orchestrator.models.anthropic.client import build_messages
from agentchat.runtime.postgres import DatabaseUnavailable
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.servers.elicitation import CallAttempt
from agentchat.tool_runner.tools.server_tool import OfferedTool
from tests.simulator.plan import Request
from tests.simulator.postgres import Postgres
from tests.simulator.process import Link, Process, Server
from tests.simulator.world import World

ACCOUNT, AGENT, SERVER, FALLBACK = "account", "agent", "shop", "claude-10"
_INPUT_TOKENS = 10
_SCHEMA: dict[str, Any] = {"type": "object"}
_SPECS = tuple(
    ToolSpec(
        name=name, server=SERVER, tool=name, description="", input_schema=_SCHEMA, read_only=name == "read"
    )
    for name in ("read", "write")
)
_TOOLS = {
    name: OfferedTool(
        name=name,
        description="",
        input_schema=_SCHEMA,
        read_only=name == "read",
        idempotent=False,
    )
    for name in ("read", "write")
}
LISTED = ToolsListed(tools=_SPECS)


def agent_of(world: World) -> AgentConfig:
    """The one agent."""
    plan = world.plan
    compaction = None
    if plan.keep_runs is not None:
        compaction = Compaction(context_window=_INPUT_TOKENS, at_share=0.5, keep_runs=plan.keep_runs)
    return AgentConfig(
        agent_id=AGENT,
        account_id=ACCOUNT,
        version=1,
        name="Agent",
        model="demo-1" if plan.prefill else "claude-9",
        max_tool_rounds=plan.max_tool_rounds,
        mcp_servers=(McpServer(name=SERVER, url="https://tools.example"),),
        on_interruption=plan.on_interruption,
        fallbacks=(Fallback(provider="anthropic", model=FALLBACK),) if plan.fallback else (),
        compaction=compaction,
    )


class SimAgents:
    """The directory, for orchestrators and tool-runners."""

    def __init__(self, process: Process, postgres: Postgres) -> None:
        self._process = process
        self._postgres = postgres
        self._agent = agent_of(process.world)

    async def load_current(
        self, _account_id: str, _agent_id: str, _conversation_id: str
    ) -> AgentConfig | None:
        return await self._process.call(
            self._process.postgres, "agent", lambda: self._agent, patience=3.0, away=DatabaseUnavailable
        )

    def get_cached(self, _account_id: str, _agent_id: str) -> AgentConfig | None:
        """In half of the worlds nothing is, so that runs begin in more than one statement."""
        return self._agent if self._process.world.plan.seed % 2 else None

    async def load_version(self, account_id: str, agent_id: str, _version: int) -> AgentConfig | None:
        return await self.load_current(account_id, agent_id, "")

    def hash_user(self, _account_id: str, _user_id: str | None) -> str | None:
        return None

    async def load_servers(
        self, _account: str, _agent: str, _version: int, run: str
    ) -> tuple[McpServer, ...]:
        process, open_runs = self._process, self._postgres.open_runs
        is_open = await process.call(
            process.postgres, "servers", lambda: run in open_runs, patience=3.0, away=DatabaseUnavailable
        )
        if not is_open:
            raise ToolFailed("ended")
        return self._agent.mcp_servers

    async def add_request_headers(self, server: McpServer, _account_id: str, _trace_id: str) -> McpServer:
        return server


class SimTools(Server):
    """The tool server, as every runner sees it: it counts what it does."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.executions: dict[str, int] = {}
        self.padding = " " * 5000 if world.plan.seed % 8 == 0 else ""  # large results leave the bus early


class SimToolServer:
    """A runner's way to the tool server; what stands for `tool_runner.servers.tool_servers.ToolServer`."""

    protocol_version = "1"

    def __init__(self, process: Process, tools: SimTools) -> None:
        self._process = process
        self._tools = tools
        self._link = Link(tools)

    def get(self, _account_id: str, _config: McpServer) -> "SimToolServer":
        return self

    def keep_open(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    async def get_tools(self, newer_than: float = 0.0) -> dict[str, OfferedTool]:
        return _TOOLS

    async def call(
        self, tool: OfferedTool, given: dict[str, Any], until: float, _attempt: CallAttempt
    ) -> mcp_types.CallToolResult:
        executions, key = self._tools.executions, given["call"]

        def effect() -> mcp_types.CallToolResult:
            executions[key] = executions.get(key, 0) + 1
            self._tools.world.note(f"TOOL {tool.name} runs {key}, time {executions[key]}")
            text = mcp_types.TextContent(type="text", text=f'{{"did": "{key}{self._tools.padding}"}}')
            return mcp_types.CallToolResult(content=[text])

        return await self._process.call(
            self._link,
            f"tool {tool.name} {key}",
            effect,
            patience=max(0.0, until - self._process.world.now),
            away=lambda _: ToolFailed("timeout"),
        )


class SimModels:
    """What stands for `orchestrator.models.Models`."""

    def __init__(self, model: "SimModel") -> None:
        self._model = model

    def resolve_credentials(self, _agent: AgentConfig) -> Credentials:
        return Credentials("", "key")

    async def get_model(self, _provider: str) -> "SimModel":
        return self._model


class SimModel:
    """The model of one orchestrator. `calls` counts those of all, by trace."""

    def __init__(self, process: Process, postgres: Postgres, asked: "Asked") -> None:
        self._process = process
        self._postgres = postgres
        self._asked = asked

    async def stream(
        self,
        _credentials: Credentials,
        call: ModelCall,
        on_text: OnText | None,
        meter: Meter,
        _on_reasoning: OnText | None = None,
    ) -> ModelReply:
        """One reply. As the real one does, it asks again where nothing was said yet."""
        while True:
            breaks, is_away = self._asked.next_break(call.model)
            said = 0
            try:
                pieces, blocks = self._asked.look(self._postgres, call)
                for piece in pieces:
                    await asyncio.sleep(self._asked.world.rng.random() * self._asked.world.plan.pace)
                    if breaks is not None and said >= breaks:
                        raise (
                            ModelFailure("provider_overloaded", kind="away", transient=True)
                            if is_away
                            else _break_stream()
                        )
                    said += 1
                    if on_text is not None:
                        await on_text(piece)
                await asyncio.sleep(0.005)
            except ModelFailure:
                if said or breaks is None or is_away:
                    raise
                await asyncio.sleep(0.25)
                continue
            finally:
                meter.usage += Usage(input_tokens=_INPUT_TOKENS, output_tokens=said)
            return ModelReply(blocks=blocks, stop_reason="tool_use" if len(blocks) > 1 else "end_turn")


def _break_stream() -> ModelFailure:
    return ModelFailure("provider_error", kind="cut", transient=True)


class Asked:
    """What the model was asked, over all workers; what is wrong with a question is a violation."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls: dict[str, int] = {}
        self._by_key = {request.key: request for request in world.plan.requests}
        self._breaks = {
            int(fault.at): int(fault.seconds) for fault in world.plan.faults if fault.kind == "reply_breaks"
        }
        self._failing = [fault for fault in world.plan.faults if fault.kind == "model_fails"]
        self._number = 0
        self.failed = 0

    def next_break(self, model: str) -> tuple[int | None, bool]:
        """After how many pieces this call breaks off, and whether its model is away."""
        self._number += 1
        away = [int(fault.seconds) for fault in self._failing if self._number >= fault.at]
        if away and model != FALLBACK:
            self.failed += 1
            return away[0], True
        return self._breaks.get(self._number), False

    def look(self, postgres: Postgres, call: ModelCall) -> tuple[list[str], tuple[dict[str, Any], ...]]:
        """The pieces still to say, and the blocks of the whole reply."""
        messages = build_messages(call)
        if messages[-1]["content"][-1].get("text") == PROMPT:
            return self._summary(messages)
        joined = _list_joined(postgres)
        asked = [(at, key) for at, key in _questions(messages) if key in self._by_key and key not in joined]
        place, key = asked[-1]
        request = self._by_key[key]
        self.calls[key] = self.calls.get(key, 0) + 1
        self._check_history(postgres, request, [key for _, key in asked])
        behind = messages[place + 1 :]
        number = sum(1 for message in behind if _calls_of(message))
        self._check_results(behind)
        pieces, text = list(request.rounds[number]), "".join(request.rounds[number])
        sent = _already_sent(behind)
        self.world.note(f"MODEL asked for round {number + 1} of {key} after {sent!r}")
        rest = self._rest(text, sent) if sent else None
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text if rest is None else rest}]
        if call.use_tools and number < len(request.calls):
            for at, name in enumerate(request.calls[number]):
                call_id = f"c{request.number}_{number}_{at}"
                blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": {"call": call_id}})
        return (pieces if rest is None else [rest] if rest else []), tuple(blocks)

    def _summary(self, messages: list[dict[str, Any]]) -> tuple[list[str], tuple[dict[str, Any], ...]]:
        """The words by which the questions so far are known."""
        text = " ".join(key for _, key in _questions(messages) if key in self._by_key)
        self.world.note(f"MODEL asked for a summary, which is {text!r}")
        return [text], ({"type": "text", "text": text},)

    def _rest(self, text: str, sent: str) -> str:
        if not text.startswith(sent):
            self.world.report("text", f"the model is to go on after {sent!r}, which it did not say")
            return text
        return text[len(sent) :]

    def _check_history(self, postgres: Postgres, request: Request, keys: list[str]) -> None:
        """I2, I8: the question is saved, and what is shown before it is what the log has, in its order."""
        for stored in postgres.events.values():
            saved = [
                event.content
                for event in stored
                if isinstance(event, events.MessageSaved)
                if event.role == "user" and not isinstance(event.steers, str)
            ]
            if request.key in saved:
                if keys != saved[: saved.index(request.key) + 1]:
                    self.world.report("I8", f"the model is shown {keys}, the log has {saved}")
                return
        self.world.report("I2", f"the model is asked {request.key}, which is not saved")

    def _check_results(self, behind: list[dict[str, Any]]) -> None:
        """Every call is answered at the head of the next message."""
        for place, message in enumerate(behind):
            asked = _calls_of(message)
            if asked:
                after = behind[place + 1]["content"] if place + 1 < len(behind) else []
                answered = [block["tool_use_id"] for block in after if block["type"] == "tool_result"]
                if asked != answered:
                    self.world.report("I9", f"calls {asked} are answered by {answered}")


def _list_joined(postgres: Postgres) -> set[str]:
    """The messages that have joined a run: the model answers that run's own."""
    stored = (event for each in postgres.events.values() for event in each)
    saved = (event for event in stored if isinstance(event, events.MessageSaved))
    return {event.content for event in saved if isinstance(event.steers, str)}


def _questions(messages: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """The texts of users, and the words of a summary of what they said before, each with its place."""
    return [
        (place, text)
        for place, message in enumerate(messages)
        if message["role"] == "user"
        for block in message["content"]
        if block["type"] == "text"
        for text in (block["text"].split() if block["text"].endswith("</summary>") else [block["text"]])
    ]


def _calls_of(message: dict[str, Any]) -> list[str]:
    return [block["id"] for block in message["content"] if block["type"] == "tool_use"]


def _already_sent(behind: list[dict[str, Any]]) -> str:
    """The text of this round that was sent before, by either form of going on."""
    if not behind:
        return ""
    last = behind[-1]
    if last["role"] == "assistant":
        return str(last["content"][-1].get("text", ""))
    text = last["content"][-1].get("text", "")
    if text.startswith("<already_sent>"):
        return str(text[len("<already_sent>") : text.index("</already_sent>")])
    return ""
