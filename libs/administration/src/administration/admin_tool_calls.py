"""A tool of an agent's MCP server called by hand: with the agent's credentials and limits, and no run."""

import os
import re
from typing import Any

import msgspec

from administration.admin import Admin, outcomes
from administration.admin_mcp_servers import named_server
from administration.admin_values import NewToolCall, ToolCallOutcome
from administration.agent_rows import AgentRow, found
from administration.checked_input import checked
from bus import BusUnavailable, call_tool
from contracts.admin_errors import Invalid, NotFound, Unavailable
from contracts.text import cleaned_json
from contracts.tool_messages import CallTool, ToolCallAnswered

KIND = "tool"
_HIDDEN = "[hidden]"
_CREDENTIAL = re.compile(
    r"(?:key|token|secret|password|passwd|credentials?|authorization|cookie)$", re.IGNORECASE
)
_UNKNOWN = "no answer came, so it is not known whether the tool took effect"


async def call(admin: Admin, agent_id: str, name: str, call: NewToolCall) -> ToolCallOutcome:
    """Call a tool of an MCP server by hand, as the agent would: takes up to two minutes.

    By the agent's current version. A tool's own error is a result. Raises NotFound, Invalid (`input.…` where
    the input does not fit the tool's schema, `confirmed` where it has to be and is not), Unavailable.
    """
    call = checked(call)
    async with admin.connection() as conn:
        row = await found(conn, agent_id)
    named_server(row.settings.mcp_servers, name)
    question = CallTool(
        trace_id=os.urandom(16).hex(),
        account_id=row.account_id,
        agent_id=row.agent_id,
        agent_version=row.version,
        server=name,
        tool=call.tool,
        input=cleaned_json(call.input),
        check_only=True,
    )
    rpc = admin.need_bus().rpc
    with outcomes():
        possible = await call_tool(rpc, question)
    _refuse(possible, call.tool)
    if not call.confirmed and (why := _harm(possible)):
        raise Invalid("confirmed", f"must be true to call {call.tool}: {why}")
    await _note(admin, row, question)
    try:
        answer = await call_tool(rpc, msgspec.structs.replace(question, check_only=False))
    except BusUnavailable as error:
        raise Unavailable(f"{_UNKNOWN}: {error}") from error
    _refuse(answer, call.tool)
    return ToolCallOutcome(
        server=name,
        tool=call.tool,
        version=row.version,
        trace_id=question.trace_id,
        ms=answer.ms,
        is_error=answer.is_error,
        output=msgspec.json.decode(answer.output) if answer.output else None,
        asks=answer.asks,
    )


def _refuse(answer: ToolCallAnswered, tool: str) -> None:
    """Raises what kept the tool from being called."""
    match answer.outcome:
        case "not_found":
            raise NotFound("tool", f"{tool}. {answer.detail}")
        case "invalid_input":
            raise Invalid(f"input.{answer.field}".rstrip("."), answer.detail)
        case "unavailable":
            raise Unavailable(answer.detail)


def _harm(possible: ToolCallAnswered) -> str:
    """Why somebody has to confirm the call; "" for no reason."""
    if possible.needs_approval:
        return "by the agent's approval rule a person has to allow it"
    if possible.may_destroy:
        return "its server says that it may change or destroy something"
    return ""


async def _note(admin: Admin, row: AgentRow, question: CallTool) -> None:
    """Before the call, so that none is without its row."""
    subject = subject_of(row.agent_id, question.server, question.tool)
    after = {
        "account_id": row.account_id,
        "version": row.version,
        "input": without_secrets(question.input),
        "trace_id": question.trace_id,
    }
    async with admin.connection() as conn:
        await admin.note(conn, "call", KIND, subject, after=after)


def subject_of(agent_id: str, server: str, tool: str) -> str:
    """What the audit rows of a tool's calls by hand are of."""
    return f"{agent_id}/{server}/{tool}"


def without_secrets(value: Any) -> Any:
    """An input as the audit log may have it: without what is named as a credential."""
    match value:
        case dict():
            return {
                name: _HIDDEN if _CREDENTIAL.search(str(name)) else without_secrets(each)
                for name, each in value.items()
            }
        case list():
            return [without_secrets(each) for each in value]
        case _:
            return value
