"""OpenAI's Chat Completions wire: its completions, chunks and errors. `chat` reads its requests."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from model_demo.wire import chat
from model_demo.wire.errors import DemoApiError
from model_demo.wire.replies import Events, ModelMessage, PlannedReply, PlannedToolCall, StopReason, few_words
from model_demo.wire.requests import Asked

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

_encode = msgspec.json.Encoder().encode


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises DemoApiError 401 without a key; any will do, also in `api-key`, as Azure's clients send it."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if not (scheme.lower() == "bearer" and token.strip()) and not headers.get("api-key", "").strip():
        raise DemoApiError(401, _NO_KEY)


def asked(raw: bytes) -> Asked:
    """Read the body of `POST /v1/chat/completions`. Raises DemoApiError 400."""
    return chat.read(raw)


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
