"""The body of a model call (Messages API, `POST /v1/messages`)."""

import hashlib
from typing import Any

import msgspec

from contracts.values import ToolSpec
from directory.parameters import DEFAULT_MAX_TOKENS

_OURS = frozenset({"model", "messages", "stream", "system", "tools"})


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call. `parameters` are the agent's and go out as they are.

    `use_tools` False: the tools are still listed, for the history's sake, and the model may not use them.
    """

    model: str
    system: str
    messages: list[dict[str, Any]]
    parameters: dict[str, Any]
    tools: tuple[ToolSpec, ...] = ()
    use_tools: bool = True


def body_of(call: ModelCall, *, cache: bool = False) -> dict[str, Any]:
    """The whole JSON body. `cache`: the provider may cache the prompt up to the end of the messages."""
    body = {name: value for name, value in call.parameters.items() if name not in _OURS}
    body.setdefault("max_tokens", DEFAULT_MAX_TOKENS)
    body |= {"model": call.model, "messages": call.messages, "stream": True}
    if call.system:
        body["system"] = call.system
    if not call.tools:
        body.pop("tool_choice", None)
    else:
        body["tools"] = [_tool(spec) for spec in call.tools]
        if not call.use_tools:
            body["tool_choice"] = {"type": "none"}
    if cache:
        body.setdefault("cache_control", {"type": "ephemeral"})
    return body


def prompt_sha256(call: ModelCall) -> str:
    """Of the system prompt as it is sent, in hexadecimal."""
    return hashlib.sha256(call.system.encode()).hexdigest()


def tools_sha256(call: ModelCall) -> str:
    """Of the tools as they are sent, in their order, in hexadecimal."""
    return hashlib.sha256(
        msgspec.json.encode([_tool(spec) for spec in call.tools], order="sorted")
    ).hexdigest()


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}
