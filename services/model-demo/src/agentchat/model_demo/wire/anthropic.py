"""Anthropic's Messages wire: its requests read, its messages and events written."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agentchat.model_demo.errors import STATUSES, DemoApiError, invalid
from agentchat.model_demo.replies import Events, ModelMessage, PlannedReply, few_words
from agentchat.model_demo.request import (
    Block,
    ChatMessage,
    ModelRequest,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolChoice,
    ToolResultBlock,
    refused_as_invalid,
)

ERROR_PREFIX = b"event: error\ndata: "
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
REQUEST_ID = "request-id"

_encode = msgspec.json.Encoder().encode


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises DemoApiError 401 without a key (any will do), 400 without the protocol's version.

    The key comes as `x-api-key`, or as the bearer token that the Python SDK sends since its version 2.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if not (headers.get("x-api-key", "").strip() or (scheme.lower() == "bearer" and token.strip())):
        raise DemoApiError(401, "x-api-key or authorization header is required")
    if not headers.get("anthropic-version"):
        raise invalid("anthropic-version: header is required")


def read(raw: bytes) -> ModelRequest:
    """Read the body of `POST /v1/messages`. Raises DemoApiError 400."""
    with refused_as_invalid():
        body: dict[str, Any] = msgspec.json.decode(raw)
        config = body.get("output_config") or {}
        return ModelRequest(
            model=body["model"],
            max_tokens=body["max_tokens"],
            messages=[message for each in body["messages"] for message in _messages(each)],
            system="\n".join(_texts(body.get("system"))),
            tools=msgspec.convert(body.get("tools", []), list[Tool]),
            tool_choice=msgspec.convert(body.get("tool_choice") or {}, ToolChoice),
            schema=(config.get("format") or {}).get("schema"),
            stop_sequences=body.get("stop_sequences", []),
            metadata=body.get("metadata"),
            stream=body.get("stream", False),
            compacts="compaction" in body,
            caches=b'"cache_control"' in raw,
        )


def message(answer: ModelMessage) -> bytes:
    return _encode(_message(answer) | _end(answer))


def events(answer: ModelMessage) -> Events:
    """The events of an answer that is streamed, a ping after message_start among them."""
    complete, ending = _message(answer), _end(answer)
    usage = ending.pop("usage")
    deltas: list[bytes] = []
    between = b""
    for index, block in enumerate(complete["content"]):
        empty, pieces = _deltas(answer.reply, block)
        between += _event("content_block_start", index=index, content_block=block | empty)
        for delta in pieces:
            deltas.append(between + _event("content_block_delta", index=index, delta=delta))
            between = b""
        between += _event("content_block_stop", index=index)
    started = {**complete, "content": [], **dict.fromkeys(ending), "usage": usage | {"output_tokens": 0}}
    return Events(
        _event("message_start", message=started) + PING,
        deltas,
        between + _event("message_delta", delta=ending, usage=usage) + _event("message_stop"),
    )


def error(failed: DemoApiError, request_id: str) -> bytes:
    detail = {"type": STATUSES[failed.status][0], "message": failed.message}
    return _encode({"type": "error", "error": detail, "request_id": request_id})


def _messages(message: dict[str, Any]) -> Iterator[ChatMessage]:
    """Yield the message; before it, as a user's text, a summary of this server's that begins its content."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks:
        if block["type"] == "compaction" and block["content"]:
            yield ChatMessage("user", [TextBlock(f"<summary>\n{block['content']}\n</summary>")])
    if read := [each for block in blocks for each in _blocks(block)]:
        yield ChatMessage(message["role"], read)


def _blocks(block: dict[str, Any]) -> Iterator[Block]:
    match block["type"]:
        case "text":
            yield TextBlock(block["text"])
        case "tool_use":
            yield ToolCallBlock(block["id"], block["name"], block["input"])
        case "tool_result":
            text = "\n".join(_texts(block.get("content")))
            yield ToolResultBlock(block["tool_use_id"], text, block.get("is_error", False))


def _texts(content: str | list[dict[str, Any]] | None) -> list[str]:
    return [content or ""] if isinstance(content, str | None) else [block["text"] for block in content]


def _event(name: str, **data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + _encode({"type": name, **data}) + b"\n\n"


def _deltas(reply: PlannedReply, block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a block is streamed: what it begins with, and the deltas."""
    match block["type"]:
        case "text":
            return {"text": ""}, [{"type": "text_delta", "text": piece} for piece in reply.split(reply.text)]
        case "compaction":
            shown = {name: block[name] for name in ("content", "encrypted_content")}
            return dict.fromkeys(shown), [{"type": "compaction_delta", **shown}]
    pieces = ["", *few_words(bytes(block["input"]).decode())]
    return {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _message(answer: ModelMessage) -> dict[str, Any]:
    reply = answer.reply
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    if reply.compacts:
        encrypted = base64.b64encode(reply.text.encode()).decode()
        content = [{"type": "compaction", "content": reply.text, "encrypted_content": encrypted}]
    for call in reply.calls:
        given = msgspec.Raw(call.input_json.encode())
        content.append({"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": given})
    about = {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "model": answer.model}
    return about | {"content": content}


def _end(answer: ModelMessage) -> dict[str, Any]:
    reply, read = answer.reply, answer.read
    refusal = {"type": "refusal", "category": None, "explanation": reply.refusal}
    return {
        "stop_reason": "compaction" if reply.compacts else reply.stop_reason,
        "stop_sequence": reply.stop_sequence,
        "stop_details": refusal if reply.stop_reason == "refusal" else None,
        "usage": {
            "input_tokens": read.fresh,
            "cache_creation_input_tokens": read.cache_written,
            "cache_read_input_tokens": read.cache_read,
            "output_tokens": answer.written,
            "service_tier": "standard",
        },
    }
