"""Read and write Anthropic's Messages protocol."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agentchat.model_demo.errors import STATUSES, DemoApiError, build_invalid_error
from agentchat.model_demo.model_request import (
    Block,
    ChatMessage,
    FileBlock,
    ModelRequest,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolChoice,
    ToolResultBlock,
    count_tokens,
    read_file,
    refuse_invalid,
)
from agentchat.model_demo.planned_reply import Events, ModelMessage, PlannedReply, split_into_words
from agentchat.model_demo.thinking_blocks import check_thinking

ERROR_PREFIX = b"event: error\ndata: "
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
REQUEST_ID = "request-id"

_encode = msgspec.json.Encoder().encode


def check_headers(headers: Mapping[str, str]) -> None:
    """Check for a key, of any value, and the protocol's version.

    The key is `x-api-key` or the bearer token that the Python SDK sends since its version 2.

    Raises:
        DemoApiError: 401 without a key, 400 without a version.
    """
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if not (headers.get("x-api-key", "").strip() or (scheme.lower() == "bearer" and token.strip())):
        raise DemoApiError(401, "x-api-key or authorization header is required")
    if not headers.get("anthropic-version"):
        raise build_invalid_error("anthropic-version: header is required")


def read(raw: bytes, headers: Mapping[str, str]) -> ModelRequest:
    """Read the body of `POST /v1/messages`. Raises DemoApiError 400."""
    with refuse_invalid():
        body: dict[str, Any] = msgspec.json.decode(raw)
        config = body.get("output_config") or {}
        return ModelRequest(
            model=body["model"],
            max_tokens=body["max_tokens"],
            messages=[message for each in body["messages"] for message in _read_message(each)],
            system="\n".join(_read_texts(body.get("system"))),
            tools=msgspec.convert(body.get("tools", []), list[Tool]),
            tool_choice=msgspec.convert(body.get("tool_choice") or {}, ToolChoice),
            schema=(config.get("format") or {}).get("schema"),
            stop_sequences=body.get("stop_sequences", []),
            metadata=body.get("metadata"),
            stream=body.get("stream", False),
            compacts="compaction" in body,
            caches=b'"cache_control"' in raw,
            # Only a model with the control `think` thinks, and checks the thinking that comes back.
            thinking=check_thinking(body, headers) if "think=1" in body["model"] else None,
        )


def write_message(answer: ModelMessage) -> bytes:
    """Write a complete reply."""
    return _encode(_build_message(answer) | _build_end(answer) | _list_transformations(answer))


def write_events(answer: ModelMessage) -> Events:
    """Write a streamed reply, with a ping after message_start."""
    complete, ending = _build_message(answer), _build_end(answer)
    usage = ending.pop("usage")
    deltas: list[bytes] = []
    between = b""
    for index, block in enumerate(complete["content"]):
        empty, pieces = _split_block(answer.reply, block)
        between += _write_event("content_block_start", index=index, content_block=block | empty)
        for delta in pieces:
            deltas.append(between + _write_event("content_block_delta", index=index, delta=delta))
            between = b""
        between += _write_event("content_block_stop", index=index)
    started = {**complete, "content": [], **dict.fromkeys(ending), "usage": usage | {"output_tokens": 0}}
    return Events(
        _write_event("message_start", message=started) + PING,
        deltas,
        between
        + _write_event("message_delta", delta=ending, usage=usage, **_list_transformations(answer))
        + _write_event("message_stop"),
    )


def write_error(failed: DemoApiError, request_id: str) -> bytes:
    """Write an error."""
    detail = {"type": STATUSES[failed.status][0], "message": failed.message}
    return _encode({"type": "error", "error": detail, "request_id": request_id})


def _read_message(message: dict[str, Any]) -> Iterator[ChatMessage]:
    """Yield the message, after a user message for a summary (compaction) in its content."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks:
        if block["type"] == "compaction" and block["content"]:
            yield ChatMessage("user", [TextBlock(f"<summary>\n{block['content']}\n</summary>")])
    if read := [each for block in blocks for each in _read_block(block)]:
        yield ChatMessage(message["role"], read)


def _read_block(block: dict[str, Any]) -> Iterator[Block]:
    match block["type"]:
        case "text":
            yield TextBlock(block["text"])
        case "tool_use":
            yield ToolCallBlock(block["id"], block["name"], block["input"])
        case "tool_result":
            content = block.get("content")
            text = "\n".join(_read_texts(content))
            yield ToolResultBlock(block["tool_use_id"], text, block.get("is_error", False))
            for each in content if isinstance(content, list) else ():
                yield from (read for read in _read_block(each) if isinstance(read, FileBlock))
        case "image" | "document":
            yield read_file(block["source"]["media_type"], block["source"]["data"])


def _read_texts(content: str | list[dict[str, Any]] | None) -> list[str]:
    if isinstance(content, str | None):
        return [content or ""]
    return [block["text"] for block in content if block["type"] == "text"]


def _write_event(name: str, **data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + _encode({"type": name, **data}) + b"\n\n"


def _split_block(reply: PlannedReply, block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the empty fields that a streamed block starts with, and its deltas."""
    match block["type"]:
        case "text":
            return {"text": ""}, [{"type": "text_delta", "text": piece} for piece in reply.split(reply.text)]
        case "thinking":
            thought, signature = block["thinking"], block["signature"]
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in split_into_words(thought)]
            return {"thinking": "", "signature": ""}, [
                *deltas,
                {"type": "signature_delta", "signature": signature},
            ]
        case "compaction":
            shown = {name: block[name] for name in ("content", "encrypted_content")}
            return dict.fromkeys(shown), [{"type": "compaction_delta", **shown}]
    pieces = ["", *split_into_words(bytes(block["input"]).decode())]
    return {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _build_message(answer: ModelMessage) -> dict[str, Any]:
    reply = answer.reply
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    if reply.thinking and answer.prefix is not None:
        signature = answer.prefix.sign(reply.thinking)
        content.insert(0, {"type": "thinking", "thinking": reply.thinking, "signature": signature})
    if reply.compacts:
        encrypted = base64.b64encode(reply.text.encode()).decode()
        content = [{"type": "compaction", "content": reply.text, "encrypted_content": encrypted}]
    for call in reply.calls:
        given = msgspec.Raw(call.input_json.encode())
        content.append({"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": given})
    about = {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "model": answer.model}
    return about | {"content": content}


def _list_transformations(answer: ModelMessage) -> dict[str, Any]:
    dropped = [] if answer.prefix is None else answer.prefix.transformations
    return {"input_transformations": dropped} if dropped else {}


def _build_end(answer: ModelMessage) -> dict[str, Any]:
    reply, read = answer.reply, answer.read
    refusal = {"type": "refusal", "category": None, "explanation": reply.refusal}
    thought = {"output_tokens_details": {"thinking_tokens": count_tokens(reply.thinking)}}
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
            **(thought if reply.thinking else {}),
        },
    }
