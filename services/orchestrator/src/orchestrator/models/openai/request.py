"""The body of a model call (`POST /chat/completions`), in the dialect of the server that it goes to."""

from typing import Any

from contracts.values import ToolSpec
from orchestrator.models.openai.dialects import Dialect, dialect_of
from orchestrator.models.openai.request_messages import messages_of
from orchestrator.models.openai.strict_schema import strict_schema
from orchestrator.models.port import ModelCall

_CAPS = ("max_completion_tokens", "max_tokens")
_NOT_SENT = frozenset({"dialect", "extra_body", *_CAPS})
_WITH_TOOLS = ("tool_choice", "parallel_tool_calls")


def body_of(call: ModelCall, base_url: str) -> dict[str, Any]:
    """The whole JSON body for a server at `base_url`."""
    dialect = dialect_of(base_url, call.parameters)
    given = {name: value for name, value in call.parameters.items() if value is not None}
    body = {name: value for name, value in given.items() if name not in _NOT_SENT}
    body |= given.get("extra_body", {})
    for cap in _CAPS:
        if cap in given:
            body[dialect.cap] = given[cap]
    body |= {"model": call.model, "messages": messages_of(call, dialect), "stream": True}
    if dialect.stream_usage:
        body["stream_options"] = {"include_usage": True}
    _add_tools(body, call)
    _add_format(body, call, dialect)
    return body


def enforces(base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Whether the server holds a reply to the schema by itself."""
    return dialect_of(base_url, parameters).schema == "strict" and strict_schema(schema) is not None


def _add_tools(body: dict[str, Any], call: ModelCall) -> None:
    if not call.tools:
        for name in _WITH_TOOLS:
            body.pop(name, None)
        return
    body["tools"] = [_tool(spec) for spec in call.tools]
    if not call.use_tools:
        body["tool_choice"] = "none"
        body.pop("parallel_tool_calls", None)


def _add_format(body: dict[str, Any], call: ModelCall, dialect: Dialect) -> None:
    schema = call.output_schema
    if schema is None or (call.tools and call.use_tools and not dialect.schema_with_tools):
        return
    if dialect.schema == "object":
        body["response_format"] = {"type": "json_object"}
        return
    strict = strict_schema(schema) if dialect.schema == "strict" else None
    wanted: dict[str, Any] = {"name": "reply", "schema": schema if strict is None else strict}
    if strict is not None:
        wanted["strict"] = True
    body["response_format"] = {"type": "json_schema", "json_schema": wanted}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.input_schema}
    return {"type": "function", "function": function}
