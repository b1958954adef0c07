"""Calls of the Chat Completions API (`POST /chat/completions`), in the dialect of the server."""

from collections.abc import Mapping
from typing import Any

import httpx2
import msgspec
import openai

from agentchat.contracts.values import ToolSpec
from agentchat.orchestrator.models.openai.dialects import Dialect, dialect_of
from agentchat.orchestrator.models.openai.reply import OpenAIReply
from agentchat.orchestrator.models.openai.request_messages import messages_of
from agentchat.orchestrator.models.openai.wire import from_status
from agentchat.orchestrator.models.port import ModelCall, ModelFailure
from agentchat.orchestrator.models.provider_calls import ProviderWire, path_below
from agentchat.orchestrator.models.schema import output_format

_CAPS = ("max_completion_tokens", "max_tokens")
_NOT_SENT = frozenset({"dialect", "extra_body", *_CAPS})
_WITH_TOOLS = ("tool_choice", "parallel_tool_calls")


def body_of(call: ModelCall, base_url: str) -> dict[str, Any]:
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


_UNSAID = ("default", "title")
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema as strict structured output takes it; None where that has no form for it.

    That is the shared form of `models.schema`, in which every field of an object must also be required. An
    optional one is not made nullable: the reply has to satisfy the agent's own schema, which knows no null
    (platform.openai.com, structured outputs).
    """
    found = output_format(schema)
    if found is None or found.get("type") != "object":
        return None
    stripped: dict[str, Any] = _stripped(found)
    return stripped if _complete(stripped) else None


def _stripped(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the keywords that are not taken; names of properties may be the same words."""
    kept = {key: value for key, value in schema.items() if key not in _UNSAID}
    if kept.get("format", "uuid") not in _FORMATS:
        del kept["format"]
    for group in ("properties", "$defs"):
        if group in kept:
            kept[group] = {name: _stripped(one) for name, one in kept[group].items()}
    if "items" in kept:
        kept["items"] = _stripped(kept["items"])
    if "anyOf" in kept:
        kept["anyOf"] = [_stripped(one) for one in kept["anyOf"]]
    return kept


def _complete(schema: dict[str, Any]) -> bool:
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inner += [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    return set(schema.get("properties", {})) == set(schema.get("required", ())) and all(map(_complete, inner))


class OpenAIWire(ProviderWire[openai.AsyncOpenAI]):
    status_error = openai.APIStatusError
    connection_error = openai.APIConnectionError
    environment = ("OPENAI_CUSTOM_HEADERS", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")

    def builder(self) -> OpenAIReply:
        return OpenAIReply()

    def enforces(self, base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Return True if the dialect's structured output has a form for the schema."""
        return enforces(base_url, parameters, schema)

    def _client(self, options: dict[str, Any]) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(**options)

    async def _send(self, client: openai.AsyncOpenAI, base_url: str, call: ModelCall) -> httpx2.Response:
        return await client.post(  # type: ignore[return-value]  # what `cast_to` names
            path_below(base_url, "/chat/completions"),
            content=msgspec.json.encode(body_of(call, base_url)),
            cast_to=httpx2.Response,
            stream=True,
            stream_cls=openai.AsyncStream[Any],
        )

    def _status_failure(self, status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
        return from_status(status, headers, body)
