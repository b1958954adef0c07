"""The body of a model call (Messages API, `POST /v1/messages`)."""

from typing import Any

from contracts.values import ToolSpec
from directory.parameters import DEFAULT_MAX_TOKENS
from orchestrator.models.anthropic.caching import mark
from orchestrator.models.anthropic.continuation import messages_of
from orchestrator.models.port import ModelCall
from orchestrator.models.schema import output_format

_OURS = frozenset({"model", "messages", "stream", "system", "tools"})


def body_of(call: ModelCall) -> dict[str, Any]:
    """The whole JSON body."""
    body = {name: value for name, value in call.parameters.items() if name not in _OURS}
    body.setdefault("max_tokens", DEFAULT_MAX_TOKENS)
    body |= {"model": call.model, "messages": _messages(call), "stream": True}
    if call.system:
        body["system"] = [{"type": "text", "text": call.system}]
    _add_tools(body, call)
    _add_format(body, call)
    mark(body, call)
    return body


def _messages(call: ModelCall) -> list[dict[str, Any]]:
    """Without what the log keeps of blocks beside the protocol."""
    messages = [*messages_of(call)]
    for place, message in enumerate(messages):
        for block in message["content"]:
            if "provider_data" in block:
                messages[place] = message | {"content": [_sendable(each) for each in message["content"]]}
                break
    return messages


def _sendable(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "provider_data"}


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
