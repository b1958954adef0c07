"""Call Anthropic's Messages API (`POST /v1/messages`), streamed."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import anthropic
import httpx2
import msgspec

from agentchat.contracts.values import ToolSpec
from agentchat.directory.model_parameters import DEFAULT_MAX_TOKENS
from agentchat.directory.request_parameters import has_thinking_on
from agentchat.orchestrator.models.anthropic.message_stream import AnthropicReply, from_status
from agentchat.orchestrator.models.continue_reply import add_continuation
from agentchat.orchestrator.models.model_interface import ModelCall, ModelFailure
from agentchat.orchestrator.models.provider_model import ProviderModel, join_url
from agentchat.orchestrator.models.structured_schema import to_output_format
from agentchat.orchestrator.models.thinking import BEFORE_4_6

_HEADERS = {"anthropic-version": "2026-10-21"}
_COMPACTING = "compact-2026-09-04"
_BINDING = "thinking-binding-controls-2026-08-01"
_DROPPING = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
"""The provider drops a thinking block whose prefix has changed, instead of refusing the request."""
_OURS = frozenset({"model", "messages", "stream", "system", "tools"})


def encode_body(call: ModelCall, *, drops_blocks: bool = False) -> bytes:
    """Encode `build_body` as JSON, reusing the JSON of messages that other calls have encoded."""
    if call.settled is None:
        return msgspec.json.encode(build_body(call, drops_blocks=drops_blocks))
    first = call.settled
    rest = msgspec.structs.replace(
        call, messages=call.messages[first.count :], earlier=call.earlier - first.blocks, settled=None
    )
    body = build_body(rest, drops_blocks=drops_blocks)
    following = msgspec.json.encode(body["messages"])
    body["messages"] = msgspec.Raw(b"[" + first.encode_json(_encode_message) + following[1:])
    return msgspec.json.encode(body)


def build_body(call: ModelCall, *, drops_blocks: bool = False) -> dict[str, Any]:
    """Build the body of a call."""
    body = {name: value for name, value in call.parameters.items() if name not in _OURS}
    body.setdefault("max_tokens", DEFAULT_MAX_TOKENS)
    messages = [_strip_provider_data(message) for message in build_messages(call)]
    body |= {"model": call.model, "messages": messages, "stream": True}
    if call.user is not None:
        body["metadata"] = body.get("metadata", {}) | {"user_id": call.user}
    if call.system:
        body["system"] = _build_system(call)
    _add_tools(body, call)
    _add_format(body, call)
    if call.compaction is not None:
        asked = {"instructions": call.compaction} if call.compaction else {}
        body["compaction"] = {"type": "summarize"} | asked
    if drops_blocks and _has_bound_thinking(call):
        body["thinking"] = body["thinking"] | _DROPPING
    mark(body, call)
    return body


def _build_system(call: ModelCall) -> list[dict[str, Any]]:
    """Build the blocks of the system prompt: one, or two if only the first part is the same in all runs."""
    end = len(call.system) if call.shared_system is None else call.shared_system
    shared, own = call.system[:end], call.system[end:]
    parts = (shared, own) if shared.strip() and own.strip() else (call.system,)
    return [{"type": "text", "text": part} for part in parts]


def _has_bound_thinking(call: ModelCall) -> bool:
    """Return True if the call has thinking on, and sends thinking of this run back."""
    thinking = call.parameters.get("thinking")
    own = call.messages[call.settled.count if call.settled is not None else 0 :]
    return (
        isinstance(thinking, Mapping)
        and thinking.get("type") in ("adaptive", "enabled")
        and any(block["type"] in _UNMARKED for message in own for block in message["content"])
    )


def build_headers(call: ModelCall, *, drops_blocks: bool = False) -> dict[str, str]:
    """Return the API version, and the betas that the call needs: summaries, dropping of thinking blocks."""
    first = call.messages[0]["content"][0] if call.messages else {}
    betas = []
    if call.compaction is not None or first.get("type") == "compaction":
        betas.append(_COMPACTING)
    if drops_blocks and _has_bound_thinking(call):
        betas.append(_BINDING)
    return _HEADERS | ({"anthropic-beta": ",".join(betas)} if betas else {})


def _encode_message(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode(_strip_provider_data(message))


def _strip_provider_data(message: dict[str, Any]) -> dict[str, Any]:
    """Remove what the log keeps of blocks beside the protocol."""
    if not any("provider_data" in block for block in message["content"]):
        return message
    blocks = [
        {name: value for name, value in block.items() if name != "provider_data"}
        for block in message["content"]
    ]
    return message | {"content": blocks}


def _add_tools(body: dict[str, Any], call: ModelCall) -> None:
    if not call.tools:
        body.pop("tool_choice", None)
        return
    body["tools"] = [_encode_tool(spec) for spec in call.tools]
    if not call.use_tools:
        body["tool_choice"] = {"type": "none"}
    elif call.tool_choice is not None and not has_thinking_on(call.parameters):  # they exclude each other
        forced = (
            {"type": "any"} if call.tool_choice == "required" else {"type": "tool", "name": call.tool_choice}
        )
        body["tool_choice"] = body.get("tool_choice", {}) | forced


def _add_format(body: dict[str, Any], call: ModelCall) -> None:
    schema = None if call.output_schema is None else to_output_format(call.output_schema)
    if schema is not None:
        wanted = {"format": {"type": "json_schema", "schema": schema}}
        body["output_config"] = body.get("output_config", {}) | wanted


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}


# Prefill ended with the 4.6 generation (platform.claude.com, Messages API errors: prefill not supported).
_PREFILLED = re.compile(rf"{BEFORE_4_6}|demo-")


def build_messages(call: ModelCall) -> list[dict[str, Any]]:
    """Return the call's messages, with the order to continue after what was sent before."""
    if not call.already_sent:
        return call.messages
    prefill = can_prefill(call.model, call.parameters)
    return add_continuation(call.messages, call.already_sent, prefill=prefill)


def can_prefill(model: str, parameters: Mapping[str, Any]) -> bool:
    """Return True if the model continues a partial assistant message; with thinking on, none does."""
    return not has_thinking_on(parameters) and _PREFILLED.match(model) is not None


_DEFAULT = {"type": "ephemeral"}
_OFF = "off"
_UNMARKED = frozenset({"thinking", "redacted_thinking"})  # a breakpoint on them is refused


def mark(body: dict[str, Any], call: ModelCall) -> None:
    """Mark in the body what the provider shall cache, as the agent's `cache_control` says.

    A cache entry is made at a breakpoint only, and found only if all before it is the same. A request may
    have four. We set three: after what all threads of an agent share, after what later runs of the thread
    start with, and at the tail, for the next round and run. An order to continue a cut reply is sent once,
    and stands after the tail (Messages API, prompt caching).
    """
    control = body.pop("cache_control", None) or _DEFAULT
    if control["type"] == _OFF:
        return
    system, tools = body.get("system", []), body.get("tools", [])
    if shared := len(system) - (call.shared_system is not None):
        _mark_block(system, shared, control)
    else:
        _mark_block(tools, len(tools), control)
    tail = sum(len(message["content"]) for message in call.messages)
    for number in {call.earlier, tail}:
        _mark_block_of(body["messages"], number, control)


def _mark_block_of(messages: list[dict[str, Any]], number: int, control: dict[str, Any]) -> None:
    """Mark the last of the first `number` blocks, in a copy: messages are kept for other calls."""
    for place, message in enumerate(messages):
        content = message["content"]
        if number <= len(content):
            messages[place] = message | {"content": [*content]}
            _mark_block(messages[place]["content"], number, control)
            return
        number -= len(content)


def _mark_block(blocks: list[dict[str, Any]], number: int, control: dict[str, Any]) -> None:
    if number and blocks[number - 1].get("type") not in _UNMARKED:
        blocks[number - 1] = blocks[number - 1] | {"cache_control": control}


class AnthropicModel(ProviderModel[anthropic.AsyncAnthropic]):
    """The models of the Messages API."""

    status_error = anthropic.APIStatusError
    connection_error = anthropic.APIConnectionError
    wrong_base_url = (
        "The model provider has no such endpoint. Check the agent's base URL: it must not include /v1 or "
        "/v1/messages."
    )
    environment = ("ANTHROPIC_CUSTOM_HEADERS",)

    def can_enforce(self, _base_url: str, _parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Return True if structured output has a form for the schema."""
        return to_output_format(schema) is not None

    def _create_client(self, options: dict[str, Any]) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(open_telemetry=False, **options)

    async def _send(
        self, client: anthropic.AsyncAnthropic, base_url: str, call: ModelCall
    ) -> httpx2.Response:
        # Other servers of this API may refuse the parameter.
        drops = (urlsplit(base_url).hostname or "").endswith("api.anthropic.com")
        return await client.post(
            join_url(base_url, "/v1/messages"),
            content=encode_body(call, drops_blocks=drops),
            cast_to=httpx2.Response,
            options={"headers": build_headers(call, drops_blocks=drops), "max_retries": 0, "timeout": None},
            stream=True,
            stream_cls=anthropic.AsyncStream[Any],
        )  # type: ignore[return-value]  # what `cast_to` names

    def _create_reply(self, _call: ModelCall) -> AnthropicReply:
        return AnthropicReply()

    def _translate_status(self, status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
        return from_status(status, headers, body)
