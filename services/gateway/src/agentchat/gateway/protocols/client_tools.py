"""Read the tools that a client brings for its run, and check them."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from agentchat.contracts import wire
from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.values import ClientTool
from agentchat.directory.json_values import check_json
from agentchat.gateway.http.problems import build_field_refusal, to_refusal

MAX_TOOLS = 64
MAX_BYTES = 64 * 1024
"""The most for all tools of a request, since they are stored with the run."""


def read_client_tools(
    tools: Sequence[ClientTool], choice: str | None, field: str = "client_tools"
) -> dict[str, Any]:
    """Return the fields of a RunRequest that the tools and the choice fill; `field` is that of the tools.

    `choice` is auto, none, required, or a tool's name. Raises Refusal: 400.
    """
    if not tools and choice is None:
        return {}
    for index, tool in enumerate(tools):
        _check_tool(tool, f"{field}[{index}]")
    names = [tool.name for tool in tools]
    if len(set(names)) < len(names):
        raise build_field_refusal(field, "Two tools have one name.")
    if len(tools) > MAX_TOOLS or len(wire.encode(tools)) > MAX_BYTES:
        raise build_field_refusal(field, f"More than {MAX_TOOLS} tools, or {MAX_BYTES // 1024} KiB of JSON.")
    if choice in (None, "auto"):
        return {"client_tools": tuple(tools)}
    if choice == "none":
        return {}
    if not names or choice not in ("required", *names):
        raise build_field_refusal("tool_choice", "This must be auto, none, required or a client tool.")
    return {"client_tools": tuple(tools), "tool_choice": choice}


def read_declared_tools(
    declared: Iterable[tuple[str, str, dict[str, Any] | None]], field: str
) -> dict[str, Any]:
    """Do the same for tools that are declared by name, description and, unless it takes nothing, schema."""
    tools = []
    for index, (name, description, schema) in enumerate(declared):
        given: dict[str, Any] = {"name": name, "description": description}
        given |= {} if schema is None else {"input_schema": schema}
        tools.append(convert_tool(given, f"{field}[{index}]"))
    return read_client_tools(tools, None, field)


def convert_tool(given: Any, field: str) -> ClientTool:
    """Return a tool as another protocol declares it. Raises Refusal: 400."""
    try:
        return msgspec.convert(given, ClientTool)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        raise build_field_refusal(f"{field}{path.strip('`')}", f"{reason.replace('`', '')}.") from None


def encode_output(text: str) -> str:
    """Return a tool's output, which protocols carry as text, as JSON: itself if it is JSON already."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return wire.encode(text).decode()
    return text


def _check_tool(tool: ClientTool, field: str) -> None:
    if tool.name in ("auto", "none", "required"):
        raise build_field_refusal(f"{field}.name", "This name has a meaning of its own.")
    if tool.input_schema.get("type", "object") != "object":
        raise build_field_refusal(f"{field}.input_schema", "The input of a tool is an object.")
    try:
        check_json(tool.description, f"{field}.description")
        check_json(tool.input_schema, f"{field}.input_schema")
    except Invalid as error:
        raise to_refusal(error) from None
