"""OpenAI's Chat Completions wire: its requests read, its completions, chunks and errors written."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agentchat.model_demo.errors import DemoApiError
from agentchat.model_demo.replies import (
    Events,
    ModelMessage,
    PlannedReply,
    PlannedToolCall,
    StopReason,
    few_words,
)
from agentchat.model_demo.request import (
    Block,
    ChatMessage,
    ModelRequest,
    Schema,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolChoice,
    ToolResultBlock,
    refused_as_invalid,
)

ERROR_PREFIX = b"data: "
PING = b": ping\n\n"
REQUEST_ID = "x-request-id"
_CREATED = 1_793_491_200
"""`created` of every completion, in Unix seconds: a reply follows from its request alone."""

_NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer"
    " auth (i.e. Authorization: Bearer YOUR_KEY)."
)
_FINISH: dict[StopReason, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_ERRORS: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("invalid_request_error", "permission_denied"),
    404: ("invalid_request_error", "not_found"),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    504: ("timeout", "timeout"),
    529: ("server_error", "overloaded"),
}
"""HTTP status to `type` and `code` (guides, error codes); others are invalid requests."""

_MOST_TOKENS = 1_000_000
"""Without a bound in the request."""

_encode = msgspec.json.Encoder().encode


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises DemoApiError 401 without a key; any will do, also in `api-key`, as Azure's clients send it."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if not (scheme.lower() == "bearer" and token.strip()) and not headers.get("api-key", "").strip():
        raise DemoApiError(401, _NO_KEY)


def read(raw: bytes) -> ModelRequest:
    """Read the body of `POST /v1/chat/completions`. Raises DemoApiError 400."""
    with refused_as_invalid():
        body: dict[str, Any] = msgspec.json.decode(raw)
        stops = body.get("stop") or []
        options = body.get("stream_options") or {}
        is_system = [message["role"] in ("system", "developer") for message in body["messages"]]
        said = list(zip(body["messages"], is_system, strict=True))
        return ModelRequest(
            model=body["model"],
            max_tokens=body.get("max_completion_tokens") or body.get("max_tokens") or _MOST_TOKENS,
            messages=[_message(message) for message, system in said if not system],
            system="\n\n".join(_text(message) for message, system in said if system),
            tools=[_tool(each["function"]) for each in body.get("tools") or ()],
            tool_choice=_tool_choice(body),
            schema=_schema(body.get("response_format")),
            stop_sequences=[stops] if isinstance(stops, str) else stops,
            metadata=body.get("metadata"),
            stream=bool(body.get("stream")),
            stream_usage=bool(options.get("include_usage")),
            caches=True,  # this API caches by itself
        )


def message(answer: ModelMessage) -> bytes:
    reply = answer.reply
    content: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        content["tool_calls"] = [_call(call, call.input_json) for call in reply.calls]
    return _encode(_about(answer, "chat.completion", {"message": content}, True) | {"usage": _usage(answer)})


def events(answer: ModelMessage) -> Events:
    """The chunks of an answer that is streamed: the role, the text and the calls, the end, the usage."""
    usage = {"usage": None} if answer.stream_usage else {}

    def chunk(delta: dict[str, Any], ends: bool = False) -> bytes:
        chunk = _about(answer, "chat.completion.chunk", {"delta": delta}, ends)
        return b"data: " + _encode(chunk | usage) + b"\n\n"

    end = chunk({}, True)
    if answer.stream_usage:
        last = _about(answer, "chat.completion.chunk", {}) | {"choices": [], "usage": _usage(answer)}
        end += b"data: " + _encode(last) + b"\n\n"
    head = chunk({"role": "assistant", "content": "", "refusal": None})
    return Events(head, [*map(chunk, _deltas(answer.reply))], end + b"data: [DONE]\n\n")


def error(failed: DemoApiError, _request_id: str) -> bytes:
    """An error's JSON body: `{"error": {message, type, param, code}}`."""
    kind, code = _ERRORS.get(failed.status, ("invalid_request_error", None))
    detail = {"message": failed.message, "type": kind, "param": None, "code": failed.code or code}
    return _encode({"error": detail})


def _message(message: dict[str, Any]) -> ChatMessage:
    """Convert a message; a tool's result becomes a block of the user's turn after the calls."""
    text = _text(message)
    if message["role"] == "tool":
        return ChatMessage("user", [ToolResultBlock(message["tool_call_id"], text)])
    blocks: list[Block] = [TextBlock(text)] if text else []
    for call in message.get("tool_calls") or ():
        given = msgspec.json.decode(call["function"]["arguments"], type=dict[str, Any])
        blocks.append(ToolCallBlock(call["id"], call["function"]["name"], given))
    return ChatMessage(message["role"], blocks)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _tool(function: dict[str, Any]) -> Tool:
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return Tool(function["name"], schema, function.get("description", ""))


def _tool_choice(body: dict[str, Any]) -> ToolChoice:
    one = body.get("parallel_tool_calls") is False
    wanted: Any = body.get("tool_choice") or "auto"
    if isinstance(wanted, dict):
        return ToolChoice("tool", wanted["function"]["name"], one)
    return ToolChoice("any" if wanted == "required" else wanted, "", one)


def _schema(wanted: dict[str, Any] | None) -> Schema | None:
    if wanted is None or wanted["type"] == "text":
        return None
    found: Schema = wanted.get("json_schema", {}).get("schema", {"type": "object"})
    return found


def _deltas(reply: PlannedReply) -> Iterator[dict[str, Any]]:
    for piece in reply.split(reply.text) if reply.text else ():
        yield {"content": piece}
    for index, call in enumerate(reply.calls):
        yield {"tool_calls": [{"index": index, **_call(call, "")}]}
        for piece in few_words(call.input_json):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _call(call: PlannedToolCall, arguments: str) -> dict[str, Any]:
    called = {"name": call.name, "arguments": arguments}
    return {"id": f"call_{call.id}", "type": "function", "function": called}


def _about(answer: ModelMessage, kind: str, choice: dict[str, Any], ends: bool = False) -> dict[str, Any]:
    finish = _FINISH[answer.reply.stop_reason] if ends else None
    return {
        "id": f"chatcmpl-{answer.id}",
        "object": kind,
        "created": _CREATED,
        "model": answer.model,
        "choices": [{"index": 0, **choice, "logprobs": None, "finish_reason": finish}],
    }


def _usage(answer: ModelMessage) -> dict[str, Any]:
    """`prompt_tokens` includes what was cached, unlike the Messages API's `input_tokens`."""
    read = answer.read
    prompt = read.fresh + read.cache_written + read.cache_read
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer.written,
        "total_tokens": prompt + answer.written,
        "prompt_tokens_details": {"cached_tokens": read.cache_read},
    }
