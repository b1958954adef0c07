"""The body of `POST /v1/chat/completions`, and its conversion into the Messages form."""

from typing import Literal

import msgspec

from model_demo.wire import requests as messages_api
from model_demo.wire.requests import Asked, Schema, checked, decode

_MOST_TOKENS = 1_000_000
"""Without a bound in the request."""
_CACHED = {"type": "ephemeral"}  # this API caches by itself


class _TextPart(msgspec.Struct, tag="text", frozen=True):
    text: str


class _Called(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class _Call(msgspec.Struct, frozen=True):
    id: str
    function: _Called


class _Message(msgspec.Struct, frozen=True):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_TextPart] | None = None
    tool_call_id: str | None = None
    tool_calls: list[_Call] | None = None

    @property
    def text(self) -> str:
        content = self.content or ""
        return content if isinstance(content, str) else "".join(part.text for part in content)

    @property
    def is_system(self) -> bool:
        return self.role in ("system", "developer")


class _Function(msgspec.Struct, frozen=True):
    name: str
    description: str = ""
    parameters: Schema | None = None


class _Tool(msgspec.Struct, frozen=True):
    function: _Function


class _StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class _NamedSchema(msgspec.Struct, frozen=True):
    schema: Schema


class _ResponseFormat(msgspec.Struct, frozen=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _NamedSchema | None = None


class _ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    messages: list[_Message]
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    stop: str | list[str] | None = None
    tools: list[_Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | _Tool | None = None
    parallel_tool_calls: bool | None = None
    response_format: _ResponseFormat | None = None
    metadata: Schema | None = None


def read(raw: bytes) -> Asked:
    """Read the request in a body. Raises DemoApiError 400."""
    request: _ChatRequest = decode(raw, _ChatRequest)
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or []
    tools = [
        messages_api.ClientTool(
            tool.function.name,
            tool.function.parameters or {"type": "object", "properties": {}},
            tool.function.description,
        )
        for tool in request.tools or ()
    ]
    converted = messages_api.MessageRequest(
        model=request.model,
        messages=[_message(message) for message in request.messages if not message.is_system],
        system="\n\n".join(message.text for message in request.messages if message.is_system),
        tools=tools,
        tool_choice=_tool_choice(request),
        output_config=_output(request),
        cache_control=_CACHED,
        max_tokens=request.max_completion_tokens or request.max_tokens or _MOST_TOKENS,
        stream=bool(request.stream),
        stop_sequences=[*filter(None, stops)],
        metadata=request.metadata,
    )
    return Asked(
        checked(converted), request.stream_options is not None and request.stream_options.include_usage
    )


def _message(message: _Message) -> messages_api.InputMessage:
    """Convert a message; a tool's result becomes a block of the user's turn after the calls."""
    if message.role == "tool":
        result = messages_api.ToolResultBlock(message.tool_call_id or "", message.text)
        return messages_api.InputMessage("user", [result])
    texts = [messages_api.TextBlock(message.text)] if message.text else []
    calls = [
        messages_api.ToolUseBlock(call.id, call.function.name, _arguments(call))
        for call in message.tool_calls or ()
    ]
    return messages_api.InputMessage("assistant" if message.role == "assistant" else "user", [*texts, *calls])


def _arguments(call: _Call) -> dict[str, messages_api.Json]:
    """Decode arguments; those that are no JSON object count as an empty one, as with OpenAI."""
    try:
        return msgspec.json.decode(call.function.arguments, type=dict[str, messages_api.Json])
    except (msgspec.DecodeError, RecursionError):
        return {}


def _tool_choice(request: _ChatRequest) -> messages_api.ToolChoice:
    one = request.parallel_tool_calls is False
    match request.tool_choice:
        case _Tool(function):
            return messages_api.ToolChoice("tool", function.name, one)
        case "none":
            return messages_api.ToolChoice("none")
        case "required":
            return messages_api.ToolChoice("any", None, one)
        case _:
            return messages_api.ToolChoice("auto", None, one)


def _output(request: _ChatRequest) -> messages_api.OutputSettings | None:
    wanted = request.response_format
    if wanted is None or wanted.type == "text":
        return None
    schema = {"type": "object"} if wanted.json_schema is None else wanted.json_schema.schema
    return messages_api.OutputSettings(format=messages_api.OutputFormat("json_schema", schema))
