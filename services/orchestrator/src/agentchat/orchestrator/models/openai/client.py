"""Call the Chat Completions API (`POST /chat/completions`), streamed, in the dialect of the server."""

from collections.abc import Mapping
from typing import Any

import httpx2
import msgspec
import openai

from agentchat.contracts.values import ToolSpec
from agentchat.orchestrator.models.model_interface import ModelCall, ModelFailure
from agentchat.orchestrator.models.openai.completion_errors import from_status
from agentchat.orchestrator.models.openai.completion_stream import OpenAIReply
from agentchat.orchestrator.models.openai.dialects import Dialect, find_dialect
from agentchat.orchestrator.models.openai.request_messages import build_messages
from agentchat.orchestrator.models.provider_model import QUIET_SECONDS, ProviderModel, join_url
from agentchat.orchestrator.models.structured_schema import to_output_format

_SHORTENED = "… [shortened]"
_CAPS = ("max_completion_tokens", "max_tokens")
_NOT_SENT = frozenset({"dialect", "extra_body", "think_tags", *_CAPS})
_WITH_TOOLS = ("tool_choice", "parallel_tool_calls")


def build_body(call: ModelCall, base_url: str) -> dict[str, Any]:
    """Build the body of a call."""
    dialect = find_dialect(base_url, call.parameters)
    given = {name: value for name, value in call.parameters.items() if value is not None}
    body = {name: value for name, value in given.items() if name not in _NOT_SENT}
    body |= given.get("extra_body", {})
    for cap in _CAPS:
        if cap in given:
            body[dialect.cap] = given[cap]
    body |= {"model": call.model, "messages": build_messages(call, dialect), "stream": True}
    if dialect.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if call.user is not None and dialect.safety_identifier:
        body["safety_identifier"] = call.user
    _add_tools(body, call, dialect)
    _add_format(body, call, dialect)
    return body


def can_enforce(base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Return True if the server enforces the schema by itself."""
    return find_dialect(base_url, parameters).schema == "strict" and to_strict_schema(schema) is not None


def _add_tools(body: dict[str, Any], call: ModelCall, dialect: Dialect) -> None:
    if not call.tools:
        for name in _WITH_TOOLS:
            body.pop(name, None)
        return
    if dialect.max_tools is not None and len(call.tools) > dialect.max_tools:
        message = f"The agent has {len(call.tools)} tools; its provider accepts at most {dialect.max_tools}."
        raise ModelFailure("provider_error", message, kind="too_many_tools")
    body["tools"] = [_encode_tool(spec, dialect) for spec in call.tools]
    if not call.use_tools:
        body["tool_choice"] = "none"
        body.pop("parallel_tool_calls", None)
    elif call.tool_choice == "required":
        body["tool_choice"] = "required"
    elif call.tool_choice is not None:
        body["tool_choice"] = {"type": "function", "function": {"name": call.tool_choice}}


def _add_format(body: dict[str, Any], call: ModelCall, dialect: Dialect) -> None:
    schema = call.output_schema
    if schema is None or (call.tools and call.use_tools and not dialect.schema_with_tools):
        return
    if dialect.schema == "object":
        body["response_format"] = {"type": "json_object"}
        return
    strict = to_strict_schema(schema) if dialect.schema == "strict" else None
    wanted: dict[str, Any] = {"name": "reply", "schema": schema if strict is None else strict}
    if strict is not None:
        wanted["strict"] = True
    body["response_format"] = {"type": "json_schema", "json_schema": wanted}


def _encode_tool(spec: ToolSpec, dialect: Dialect) -> dict[str, Any]:
    description, most = spec.description, dialect.description_chars
    if most is not None and len(description) > most:
        description = description[: most - len(_SHORTENED)] + _SHORTENED
    function = {"name": spec.name, "description": description, "parameters": spec.input_schema}
    return {"type": "function", "function": function}


_UNSAID = ("default", "title")
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})


def to_strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema in the form of strict structured output, or None if it has no such form.

    It is the form of `models.structured_schema`, with every field required. An optional field is not made
    nullable: the agent's own schema may not permit null (platform.openai.com, structured outputs).
    """
    found = to_output_format(schema)
    if found is None or found.get("type") != "object":
        return None
    stripped: dict[str, Any] = _strip_keywords(found)
    return stripped if _complete(stripped) else None


def _strip_keywords(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove the keywords that are not accepted; properties may have the same names."""
    kept = {key: value for key, value in schema.items() if key not in _UNSAID}
    if kept.get("format", "uuid") not in _FORMATS:
        del kept["format"]
    for group in ("properties", "$defs"):
        if group in kept:
            kept[group] = {name: _strip_keywords(one) for name, one in kept[group].items()}
    if "items" in kept:
        kept["items"] = _strip_keywords(kept["items"])
    if "anyOf" in kept:
        kept["anyOf"] = [_strip_keywords(one) for one in kept["anyOf"]]
    return kept


def _complete(schema: dict[str, Any]) -> bool:
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inner += [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    return set(schema.get("properties", {})) == set(schema.get("required", ())) and all(map(_complete, inner))


class OpenAIModel(ProviderModel[openai.AsyncOpenAI]):
    """The models of the Chat Completions API."""

    status_error = openai.APIStatusError
    connection_error = openai.APIConnectionError
    wrong_base_url = (
        "The model provider has no such endpoint. Check the agent's base URL: it usually ends with /v1, "
        "and must not include /chat/completions."
    )
    environment = ("OPENAI_CUSTOM_HEADERS", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
    idle_seconds = QUIET_SECONDS  # these models think without sending pings

    def can_enforce(self, base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Return True if the dialect's structured output has a form for the schema."""
        return can_enforce(base_url, parameters, schema)

    def _create_client(self, options: dict[str, Any]) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(**options)

    async def _send(self, client: openai.AsyncOpenAI, base_url: str, call: ModelCall) -> httpx2.Response:
        return await client.post(  # type: ignore[return-value]  # what `cast_to` names
            join_url(base_url, "/chat/completions"),
            content=msgspec.json.encode(build_body(call, base_url)),
            cast_to=httpx2.Response,
            options={"max_retries": 0, "timeout": None},
            stream=True,
            stream_cls=openai.AsyncStream[Any],
        )

    def _create_reply(self, call: ModelCall) -> OpenAIReply:
        tags = bool(call.parameters.get("think_tags"))
        return OpenAIReply({spec.name for spec in call.tools}, think_tags=tags)

    def _translate_status(self, status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
        return from_status(status, headers, body)
