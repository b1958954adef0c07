"""The body of a model call (Messages API, `POST /v1/messages`)."""

from typing import Any

import msgspec

from contracts.values import ToolSpec
from directory.parameters import DEFAULT_MAX_TOKENS
from orchestrator.models.anthropic.caching import mark
from orchestrator.models.anthropic.prefill import messages_of
from orchestrator.models.port import ModelCall
from orchestrator.models.schema import output_format

_HEADERS = {"anthropic-version": "2026-10-21"}
_COMPACTING = _HEADERS | {"anthropic-beta": "compact-2026-09-04"}
_OURS = frozenset({"model", "messages", "stream", "system", "tools"})


def json_of(call: ModelCall) -> bytes:
    """`body_of` in JSON, byte for byte, but what other calls have encoded of it is not encoded again."""
    if call.settled is None:
        return msgspec.json.encode(body_of(call))
    first = call.settled
    rest = msgspec.structs.replace(
        call, messages=call.messages[first.count :], earlier=call.earlier - first.blocks
    )
    body = body_of(rest)
    following = msgspec.json.encode(body["messages"])
    body["messages"] = msgspec.Raw(b"[" + first.json(_json_of) + following[1:])
    return msgspec.json.encode(body)


def body_of(call: ModelCall) -> dict[str, Any]:
    """The whole body."""
    body = {name: value for name, value in call.parameters.items() if name not in _OURS}
    body.setdefault("max_tokens", DEFAULT_MAX_TOKENS)
    messages = [_sendable(message) for message in messages_of(call)]
    body |= {"model": call.model, "messages": messages, "stream": True}
    if call.system:
        body["system"] = [{"type": "text", "text": call.system}]
    _add_tools(body, call)
    _add_format(body, call)
    if call.compaction is not None:
        asked = {"instructions": call.compaction} if call.compaction else {}
        body["compaction"] = {"type": "summarize"} | asked
    mark(body, call)
    return body


def headers_of(call: ModelCall) -> dict[str, str]:
    """The version of the API, and of the beta of summaries where a call requests or begins with one."""
    first = call.messages[0]["content"][0] if call.messages else {}
    return _COMPACTING if call.compaction is not None or first.get("type") == "compaction" else _HEADERS


def _json_of(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode(_sendable(message))


def _sendable(message: dict[str, Any]) -> dict[str, Any]:
    """Without what the log keeps of blocks next to the protocol."""
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
    body["tools"] = [_tool(spec) for spec in call.tools]
    if not call.use_tools:
        body["tool_choice"] = {"type": "none"}


def _add_format(body: dict[str, Any], call: ModelCall) -> None:
    schema = None if call.output_schema is None else output_format(call.output_schema)
    if schema is not None:
        wanted = {"format": {"type": "json_schema", "schema": schema}}
        body["output_config"] = body.get("output_config", {}) | wanted


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}
