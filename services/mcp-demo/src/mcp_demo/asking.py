"""A missing argument, requested from a person through the client (MCP 2026-07-28, patterns/mrtr).

Only where the client supports elicitation, and in the protocol that repeats the call with the answers: this
server keeps no sessions.
"""

from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcp_demo.tools import Tool
from mcp_demo.tools.tool_schemas import schema_of

_KEY = "missing"


def asked(
    context: ServerRequestContext[dict[str, Any]], tool: Tool, params: types.CallToolRequestParams
) -> dict[str, Any] | types.InputRequiredResult:
    """The arguments with a person's answers, or the question for the person."""
    arguments = params.arguments or {}
    missing = [name for name in tool.asks_for if arguments.get(name) is None]
    if not missing or not _can_ask(context):
        return arguments
    answer = (params.input_responses or {}).get(_KEY)
    if isinstance(answer, types.ElicitResult):
        given = answer.content or {}
        return arguments | {name: given[name] for name in missing if name in given}
    return types.InputRequiredResult(input_requests={_KEY: _question(tool, missing)})


def _can_ask(context: ServerRequestContext[dict[str, Any]]) -> bool:
    capabilities = context.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    if elicitation is None or context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    return elicitation.form is not None or elicitation.url is None


def _question(tool: Tool, missing: list[str]) -> types.ElicitRequest:
    properties = schema_of(tool.arguments)["properties"]
    wanted = {
        name: {"type": "string", "title": name.replace("_", " ").capitalize()}
        | {"description": properties[name]["description"], "minLength": 1, "maxLength": 100}
        for name in missing
    }
    schema = {"type": "object", "properties": wanted, "required": missing}
    message = f"{tool.title}: {', '.join(missing).replace('_', ' ')}?"
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
