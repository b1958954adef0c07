"""Read the structured output that `response_format` or `text.format` asks for.

A schema is checked by the rules for agents' own schemas. The worker checks the reply, `strict` or not.
"""

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from agentchat.contracts import wire
from agentchat.contracts.admin_errors import Invalid
from agentchat.directory.agent_config import load_agent
from agentchat.directory.output_schema import check_output_schema
from agentchat.gateway.http.problems import Refusal, build_field_refusal
from agentchat.runtime.postgres import Pool

MAX_BYTES = 16 * 1024
"""The most for a request's schema: it is stored with the run, and may become part of the prompt."""

_ANY_OBJECT = {"type": "object"}
_NOT_ALLOWED = "The agent has allow_request_schema off: it gives JSON of its own output_schema only."


_TYPE = Meta(extra_json_schema={"enum": ["text", "json_object", "json_schema"]})


class RequestedSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON Schema that the reply is to fit."""

    name: str
    schema: Annotated[dict[str, Any], Meta(description="Draft 2020-12, an object at its root, up to 16 KiB.")]
    strict: bool | None = None


class CompletionFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted format of a reply in Chat Completions; the type json_schema has a schema."""

    type: Annotated[str, _TYPE] = "text"
    json_schema: RequestedSchema | None = None


class TextFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted format of a text in Responses; the type json_schema has a name and a schema."""

    type: Annotated[str, _TYPE] = "text"
    name: str | None = None
    schema: Annotated[dict[str, Any] | None, Meta(description="As that of a chat completion.")] = None
    strict: bool | None = None


class Wanted(msgspec.Struct, frozen=True):
    """A reply in JSON, by `schema`, at `field` of the request; None: any object."""

    field: str
    schema: dict[str, Any] | None = None


def read_wanted_format(given: CompletionFormat | TextFormat | None, field: str) -> Wanted | None:
    """Read the format; None for text. Raises Refusal: 400."""
    match given:
        case None | CompletionFormat(type="text") | TextFormat(type="text"):
            return None
        case CompletionFormat(type="json_object") | TextFormat(type="json_object"):
            return Wanted(field)
        case CompletionFormat(type="json_schema", json_schema=None):
            raise build_field_refusal(
                f"{field}.json_schema", "This must be an object with a name and a schema."
            )
        case CompletionFormat(type="json_schema", json_schema=RequestedSchema(schema=schema)):
            return Wanted(f"{field}.json_schema.schema", _drop_draft(schema))
        case TextFormat(type="json_schema", name=None):
            raise build_field_refusal(f"{field}.name", "A schema has a name.")
        case TextFormat(type="json_schema", schema=None):
            raise build_field_refusal(f"{field}.schema", "This must be a JSON Schema.")
        case TextFormat(type="json_schema", schema=schema):
            return Wanted(f"{field}.schema", _drop_draft(schema))
    raise build_field_refusal(field, "Its type must be text, json_object or json_schema.")


class OutputFunction(msgspec.Struct, frozen=True):
    """A function of the client that must be called, so that its arguments are the reply."""

    name: str
    wanted: Wanted


def read_output_function(tools: Sequence[Any] | None, choice: Any) -> OutputFunction | None:
    """Return the one function that `tool_choice` forces; None if it forces none, or several might be called.

    Clients such as pydantic-ai ask for structured output so. Both APIs' forms are read.
    """
    functions: dict[str, tuple[str, Any]] = {}
    for index, tool in enumerate(tools or ()):
        if isinstance(tool, dict) and tool.get("type") == "function":
            is_nested = isinstance(tool.get("function"), dict)
            function = tool["function"] if is_nested else tool
            field = f"tools[{index}].{'function.' if is_nested else ''}parameters"
            functions[str(function.get("name"))] = (field, function.get("parameters"))
    name = _read_forced_name(choice, list(functions) if len(functions) == len(tools or ()) else [])
    if name is None or name not in functions:
        return None
    field, schema = functions[name]
    if not isinstance(schema, dict):
        raise build_field_refusal(field, "This must be a JSON Schema.")
    return OutputFunction(name, Wanted(field, _drop_draft(schema)))


def _read_forced_name(choice: Any, names: list[str]) -> str | None:
    if isinstance(choice, dict):
        if choice.get("type") == "allowed_tools":
            allowed = choice.get("allowed_tools", choice)
            if not isinstance(allowed, dict) or allowed.get("mode") != "required":
                return None
            tools = allowed.get("tools")
            is_one = isinstance(tools, list) and len(tools) == 1 and isinstance(tools[0], dict)
            return _read_forced_name(tools[0], names) if is_one and tools else None
        return read_function_name(choice)
    return names[0] if choice == "required" and len(names) == 1 else None


def read_function_name(choice: Any) -> str | None:
    """Return the name of the function that a choice or a tool names, nested or flat; None for another."""
    if not isinstance(choice, dict) or choice.get("type") != "function":
        return None
    found = choice.get("function", choice)
    name = found.get("name") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None


async def choose_schema(
    pool: Pool, account_id: str, agent_id: str, wanted: Wanted | None
) -> dict[str, Any] | None:
    """Return the schema that the reply must match; None if the agent's own setting applies.

    Raises:
        Refusal: 400 for a malformed schema, or one that the agent does not allow.
        DatabaseUnavailable
    """
    if wanted is None:
        return None
    agent = await load_agent(pool, account_id, agent_id)
    if agent is None:
        raise Refusal("agent_not_found")
    if agent.output_type == "json" and wanted.schema in (None, _drop_draft(agent.output_schema)):
        return None
    if not agent.allow_request_schema:
        raise build_field_refusal(wanted.field, _NOT_ALLOWED)
    if wanted.schema is None:
        return _ANY_OBJECT
    encoded = wire.encode(wanted.schema)
    if len(encoded) > MAX_BYTES:
        raise build_field_refusal(wanted.field, f"This is larger than {MAX_BYTES // 1024} KiB.")
    problem = await asyncio.to_thread(_find_problem, encoded)  # up to 0.1 s for one of the largest
    if problem is not None:
        path, reason = problem
        raise build_field_refusal(wanted.field + path, f"This {reason}.")
    return wanted.schema


def _drop_draft(schema: dict[str, Any] | None) -> dict[str, Any]:
    """Drop `$schema`: clients name older drafts, such as draft-07, and use what 2020-12 means the same by."""
    return {name: value for name, value in (schema or {}).items() if name != "$schema"}


@lru_cache(maxsize=256)
def _find_problem(schema: bytes) -> tuple[str, str] | None:
    """Find the path and the text of a fault in a schema.

    Cached, since a client sends one schema repeatedly.
    """
    if b"\\u0000" in schema:
        return "", "holds NUL"
    try:
        check_output_schema(msgspec.json.decode(schema))
    except Invalid as error:
        return error.field.removeprefix("output_schema"), error.reason
    return None
