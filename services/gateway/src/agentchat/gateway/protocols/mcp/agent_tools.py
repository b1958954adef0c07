"""Offer an account's agents as MCP tools, and run their calls.

Sources: MCP 2025-11-25 and 2026-07-28, server/tools; basic/utilities/progress; basic/patterns/mrtr.
"""

import asyncio
import re
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import http
from agentchat.contracts.run_results import ChatReply, build_chat_reply
from agentchat.contracts.updates import Broken, Finished, TextUpdate, ToolStarted, Update
from agentchat.contracts.values import ApprovalNeeded
from agentchat.directory.agent_names import NamedAgent, find_named_agent, list_named_agents
from agentchat.directory.agent_to_agent import MAX_DEPTH
from agentchat.gateway.access.checks import CallMeta, get_admitted
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.http.request_context import MAX_BODY_BYTES, JsonRequest
from agentchat.gateway.protocols.chat import build_run_request
from agentchat.gateway.protocols.mcp.mcp_route import REQUEST
from agentchat.gateway.runs.event_stream import RunFollower, build_run_refusal
from agentchat.gateway.runs.resume_paused_run import resume_run
from agentchat.gateway.runs.run_request import RunRequest, Verdict, ViewKind, build_verdict
from agentchat.gateway.runs.submit_request import StartedRun, submit_request
from agentchat.runtime.postgres import DatabaseUnavailable

PROGRESS_SECONDS = 0.5
"""The least time between two notifications of progress."""

_FORM = "mcp"
_VIEW = ViewKind()
_APPROVE, _ANSWER = "approve:", "answer:"
_ELICIT: TypeAdapter[types.ElicitRequestParams] = TypeAdapter(types.ElicitRequestParams)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_INPUT = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What to ask or tell the agent."},
        "conversation_id": {
            "type": "string",
            "description": "Continues this conversation: the conversation_id of an earlier result.",
        },
    },
    "required": ["message"],
}
_OUTPUT = {
    "type": "object",
    "properties": {
        "conversation_id": {"type": "string"},
        "trace_id": {"type": "string"},
        "message": {
            "type": "object",
            "properties": {"id": {"type": "string"}, "content": {"type": "string"}},
        },
        "sources": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["conversation_id", "trace_id", "message"],
}
_APPROVAL = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "title": "Approve this call", "default": False},
        "reason": {"type": "string", "title": "Reason, which the agent is told", "maxLength": 2000},
    },
    "required": ["approved"],
}


def build_manager() -> StreamableHTTPSessionManager:
    """Build what answers one request: without sessions, nothing is kept from one to the next."""
    return StreamableHTTPSessionManager(_build_server(), stateless=True, max_request_body_size=MAX_BODY_BYTES)


@cache
def _build_server() -> Server[Any]:
    return Server(
        "agent-chat-service",
        version=version("agentchat-gateway"),
        title="Agent Chat Service",
        instructions="Each tool is an agent, which answers a message and keeps its conversation.",
        on_list_tools=list_agent_tools,
        on_call_tool=call_agent,
    )


def name_tools(agents: Sequence[NamedAgent]) -> dict[str, NamedAgent]:
    """Return the agents by the names of their tools, as MCP allows them. A name that is taken gets the id."""
    named: dict[str, NamedAgent] = {}
    for agent in agents:
        name = _NOT_IN_NAMES.sub("_", agent.public_name)[:128]
        named[agent.agent_id if name in named else name] = agent
    return named


async def list_agent_tools(
    context: ServerRequestContext[Any, Any], _: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """List a tool for each enabled agent of the account, or for the one of the address."""
    tools = [
        types.Tool(
            name=name,
            title=agent.name,
            description=f"Send a message to the agent {agent.name} and get its reply.",
            input_schema=_INPUT,
            output_schema=_OUTPUT,
            annotations=types.ToolAnnotations(open_world_hint=True),
        )
        for name, agent in (await _load_tools(_get_request(context))).items()
    ]
    return types.ListToolsResult(tools=tools)


async def call_agent(
    context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    """Run the agent and return its reply; what went wrong is a result with `is_error`.

    A client of 2026-07-28 or later is asked for the approvals that the run waits for. It calls again with
    the decisions, which resumes the run.
    """
    try:
        return await _run_agent(context, params)
    except Refusal as refusal:
        return _build_error(refusal)
    except (BusUnavailable, DatabaseUnavailable):
        return _build_error(Refusal("overloaded"))


async def _run_agent(
    context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    request = _get_request(context)
    agent = (await _load_tools(request)).get(params.name)
    if agent is None:
        raise Refusal("agent_not_found")
    started = await _start(request, agent.agent_id, params)
    last = await _follow(context, started.run)
    if isinstance(last, Finished):
        return _build_result(started, build_chat_reply(started.claim.conversation_id, last))
    if last.approvals and context.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return _ask(agent, last.approvals)
    raise build_run_refusal(last)


async def _start(request: JsonRequest, agent_id: str, params: types.CallToolRequestParams) -> StartedRun:
    if answers := params.input_responses:
        verdicts = tuple(_read_decision(key, answer) for key, answer in answers.items())
        return await resume_run(
            request, RunRequest(form=_FORM, agent_id=agent_id, view=_VIEW, verdicts=verdicts)
        )
    try:
        body = msgspec.convert(params.arguments or {}, http.ChatBody)
    except msgspec.ValidationError as error:
        raise Refusal("invalid_request", f"{error}.".replace("`", "")) from None
    request.state.admitted = msgspec.structs.replace(get_admitted(request), agent_id=agent_id)
    run_request = await build_run_request(request, body, _FORM)
    return await submit_request(request, _join_outer_run(run_request, request.state.call_meta))


def _join_outer_run(run_request: RunRequest, meta: CallMeta | None) -> RunRequest:
    """Give a run the context and the depth that follow from the run of the agent that calls, if one does."""
    if meta is None:
        return run_request
    if meta.depth >= MAX_DEPTH:
        raise Refusal("invalid_request", f"Agents may call each other {MAX_DEPTH} deep.")
    return msgspec.structs.replace(run_request, context=meta.context, depth=meta.depth + 1, unlisted=True)


async def _follow(context: ServerRequestContext[Any, Any], run: RunFollower) -> Finished | Broken:
    """Return the end of the run. Each notification of progress has new text of the reply as its message."""
    loop, told, length = asyncio.get_running_loop(), 0.0, 0
    new: list[Update] = []
    while not run.ended:
        await run.wait()
        new += run.take()
        if (text := _describe(new)) and loop.time() - told >= PROGRESS_SECONDS:
            told, length, new = loop.time(), length + len(text), new[-1:]
            await context.session.report_progress(length, None, text)
    last = [*new, *run.take()][-1]
    assert isinstance(last, Finished | Broken)
    return last


def _describe(updates: Sequence[Update]) -> str:
    parts = (
        each.text if isinstance(each, TextUpdate) else f"[{each.name}]"
        for each in updates
        if isinstance(each, TextUpdate | ToolStarted)
    )
    return "".join(parts)


def _build_result(started: StartedRun, reply: ChatReply) -> types.CallToolResult:
    fields: dict[str, Any] = msgspec.to_builtins(reply)
    shown = {name: fields[name] for name in ("conversation_id", "message", "sources") if fields.get(name)}
    return types.CallToolResult(
        content=[types.TextContent(text=reply.message.content)],
        structured_content={**shown, "trace_id": started.claim.trace_id},
    )


def _ask(agent: NamedAgent, approvals: Sequence[ApprovalNeeded]) -> types.InputRequiredResult:
    return types.InputRequiredResult(
        input_requests=dict(_build_question(agent, approval) for approval in approvals)
    )


def _build_question(agent: NamedAgent, approval: ApprovalNeeded) -> tuple[str, types.ElicitRequest]:
    """Return the question for an approval, and its key: the kind of the decision, and the approval's id."""
    asked = approval.elicitation
    if asked is None:
        given = msgspec.json.encode(approval.input or {}).decode()
        message = f"{agent.name} asks to call {approval.tool} with {given}"
        params = types.ElicitRequestFormParams(message=message, requested_schema=_APPROVAL)
        return _APPROVE + approval.id, types.ElicitRequest(params=params)
    shown = _ELICIT.validate_python(msgspec.to_builtins(asked), by_name=True)
    return _ANSWER + approval.id, types.ElicitRequest(params=shown)


def _read_decision(key: str, answer: Any) -> Verdict:
    """Read the answer to a question of `_build_question`. To decline or cancel is to deny."""
    if not isinstance(answer, types.ElicitResult) or not key.startswith((_APPROVE, _ANSWER)):
        raise Refusal("invalid_request", "inputResponses must answer the questions of the last result.")
    is_approval = key.startswith(_APPROVE)
    content: dict[str, Any] = dict(answer.content or {})
    approved = answer.action == "accept" and (not is_approval or content.get("approved") is True)
    return build_verdict(
        key.partition(":")[2],
        approved=approved,
        given=None if is_approval else content or None,
        reason=str(content.get("reason") or "") if is_approval else None,
    )


def _build_error(refusal: Refusal) -> types.CallToolResult:
    text = f"{refusal.row.code}: {refusal.detail}"
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


async def _load_tools(request: JsonRequest) -> dict[str, NamedAgent]:
    """Return the tools at the address of the request. Raises Refusal: 404, there is no such agent."""
    agents = await list_named_agents(request.services.pool, request.auth.account_id)
    tools = name_tools(agents)
    if (name := request.path_params.get("agent")) is None:
        return tools
    agent = find_named_agent(agents, name)
    if agent is None:
        raise Refusal("agent_not_found")
    return {tool: each for tool, each in tools.items() if each == agent}


def _get_request(context: ServerRequestContext[Any, Any]) -> JsonRequest:
    assert context.request is not None
    request = context.request.scope[REQUEST]
    assert isinstance(request, JsonRequest)
    return request
