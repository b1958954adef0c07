"""Read and write OpenAI's Chat Completions protocol."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agentchat.model_demo.errors import DemoApiError
from agentchat.model_demo.model_request import (
    Block,
    ChatMessage,
    ModelRequest,
    Schema,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolChoice,
    ToolResultBlock,
    count_tokens,
    read_file,
    refuse_invalid,
)
from agentchat.model_demo.planned_reply import (
    Events,
    ModelMessage,
    PlannedReply,
    PlannedToolCall,
    StopReason,
    split_into_words,
)

ERROR_PREFIX = b"data: "
PING = b": ping\n\n"
REQUEST_ID = "x-request-id"
_CREATED = 1_793_491_200
"""`created` of every completion, in Unix seconds: a constant, so that replies are deterministic."""

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
"""HTTP status to `type` and `code` (guides, error codes); other statuses are invalid requests."""

_MOST_TOKENS = 1_000_000
"""The limit if the request has none."""

_encode = msgspec.json.Encoder().encode


def check_headers(headers: Mapping[str, str]) -> None:
    """Check for a key of any value, also in Azure's `api-key`. Raises DemoApiError 401."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if not (scheme.lower() == "bearer" and token.strip()) and not headers.get("api-key", "").strip():
        raise DemoApiError(401, _NO_KEY)


def read(raw: bytes, _headers: Mapping[str, str]) -> ModelRequest:
    """Read the body of `POST /v1/chat/completions`. Raises DemoApiError 400."""
    with refuse_invalid():
        body: dict[str, Any] = msgspec.json.decode(raw)
        stops = body.get("stop") or []
        options = body.get("stream_options") or {}
        is_system = [message["role"] in ("system", "developer") for message in body["messages"]]
        said = list(zip(body["messages"], is_system, strict=True))
        return ModelRequest(
            model=body["model"],
            max_tokens=body.get("max_completion_tokens") or body.get("max_tokens") or _MOST_TOKENS,
            messages=[_read_message(message) for message, system in said if not system],
            system="\n\n".join(_read_text(message) for message, system in said if system),
            tools=[_read_tool(each["function"]) for each in body.get("tools") or ()],
            tool_choice=_read_tool_choice(body),
            schema=_read_schema(body.get("response_format")),
            stop_sequences=[stops] if isinstance(stops, str) else stops,
            metadata=body.get("metadata"),
            stream=bool(body.get("stream")),
            stream_usage=bool(options.get("include_usage")),
            caches=True,  # this API caches by itself
        )


def write_message(answer: ModelMessage) -> bytes:
    """Write a complete reply."""
    reply = answer.reply
    content: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.thinking:
        content["reasoning_content"] = reply.thinking
    if reply.calls:
        content["tool_calls"] = [_call(call, call.input_json) for call in reply.calls]
    return _encode(
        _build_object(answer, "chat.completion", {"message": content}, True) | {"usage": _build_usage(answer)}
    )


def write_events(answer: ModelMessage) -> Events:
    """Write a streamed reply: the role, the text and the calls, the end, the usage."""
    usage = {"usage": None} if answer.stream_usage else {}

    def write_chunk(delta: dict[str, Any], ends: bool = False) -> bytes:
        chunk = _build_object(answer, "chat.completion.chunk", {"delta": delta}, ends)
        return b"data: " + _encode(chunk | usage) + b"\n\n"

    end = write_chunk({}, True)
    if answer.stream_usage:
        last = _build_object(answer, "chat.completion.chunk", {}) | {
            "choices": [],
            "usage": _build_usage(answer),
        }
        end += b"data: " + _encode(last) + b"\n\n"
    head = write_chunk({"role": "assistant", "content": "", "refusal": None})
    return Events(head, [*map(write_chunk, _split_reply(answer.reply))], end + b"data: [DONE]\n\n")


def write_error(failed: DemoApiError, _request_id: str) -> bytes:
    """Write an error's JSON body: `{"error": {message, type, param, code}}`."""
    kind, code = _ERRORS.get(failed.status, ("invalid_request_error", None))
    detail = {"message": failed.message, "type": kind, "param": None, "code": failed.code or code}
    return _encode({"error": detail})


def _read_message(message: dict[str, Any]) -> ChatMessage:
    """Convert a message; a tool's result becomes a block of the user's turn after the calls."""
    text = _read_text(message)
    if message["role"] == "tool":
        return ChatMessage("user", [ToolResultBlock(message["tool_call_id"], text)])
    blocks: list[Block] = [*_read_files(message), *([TextBlock(text)] if text else [])]
    for call in message.get("tool_calls") or ():
        given = msgspec.json.decode(call["function"]["arguments"], type=dict[str, Any])
        blocks.append(ToolCallBlock(call["id"], call["function"]["name"], given))
    return ChatMessage(message["role"], blocks)


def _read_text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def _read_files(message: dict[str, Any]) -> Iterator[Block]:
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if part["type"] != "text":
            url = part["image_url"]["url"] if part["type"] == "image_url" else part["file"]["file_data"]
            media_type, _, data = url.removeprefix("data:").partition(";base64,")
            yield read_file(media_type, data)


def _read_tool(function: dict[str, Any]) -> Tool:
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return Tool(function["name"], schema, function.get("description", ""))


def _read_tool_choice(body: dict[str, Any]) -> ToolChoice:
    one = body.get("parallel_tool_calls") is False
    wanted: Any = body.get("tool_choice") or "auto"
    if isinstance(wanted, dict):
        return ToolChoice("tool", wanted["function"]["name"], one)
    return ToolChoice("any" if wanted == "required" else wanted, "", one)


def _read_schema(wanted: dict[str, Any] | None) -> Schema | None:
    if wanted is None or wanted["type"] == "text":
        return None
    found: Schema = wanted.get("json_schema", {}).get("schema", {"type": "object"})
    return found


def _split_reply(reply: PlannedReply) -> Iterator[dict[str, Any]]:
    for piece in split_into_words(reply.thinking) if reply.thinking else ():
        yield {"reasoning_content": piece}
    for piece in reply.split(reply.text) if reply.text else ():
        yield {"content": piece}
    for index, call in enumerate(reply.calls):
        yield {"tool_calls": [{"index": index, **_call(call, "")}]}
        for piece in split_into_words(call.input_json):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _call(call: PlannedToolCall, arguments: str) -> dict[str, Any]:
    called = {"name": call.name, "arguments": arguments}
    return {"id": f"call_{call.id}", "type": "function", "function": called}


def _build_object(
    answer: ModelMessage, kind: str, choice: dict[str, Any], ends: bool = False
) -> dict[str, Any]:
    finish = _FINISH[answer.reply.stop_reason] if ends else None
    return {
        "id": f"chatcmpl-{answer.id}",
        "object": kind,
        "created": _CREATED,
        "model": answer.model,
        "choices": [{"index": 0, **choice, "logprobs": None, "finish_reason": finish}],
    }


def _build_usage(answer: ModelMessage) -> dict[str, Any]:
    """Count the tokens; `prompt_tokens` includes cached ones, unlike `input_tokens` of Messages."""
    read = answer.read
    prompt = read.fresh + read.cache_written + read.cache_read
    thought = count_tokens(answer.reply.thinking) if answer.reply.thinking else 0
    details = {"completion_tokens_details": {"reasoning_tokens": thought}} if thought else {}
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer.written,
        "total_tokens": prompt + answer.written,
        "prompt_tokens_details": {"cached_tokens": read.cache_read},
        **details,
    }
