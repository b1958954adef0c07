"""Read the stream of a message, and translate its errors.

Unknown events and fields are ignored. An error in the middle of a stream is known by its type: its status is
200.

Source: the Messages API's streaming page.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agentchat.contracts.text import clean_json, clean_text
from agentchat.contracts.values import Usage
from agentchat.orchestrator.models.port import ModelFailure, clamp_tokens, make_cut_short, make_timeout
from agentchat.orchestrator.models.provider_calls import from_http_status
from agentchat.orchestrator.models.reply_builder import (
    MAX_BLOCKS,
    Content,
    StreamBroken,
    StreamedReply,
    decode_event,
    read_input,
)

_PING = "ping"
_OF_BLOCK = {
    "text_delta": "text",
    "input_json_delta": "tool_use",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "compaction_delta": "compaction",
}
"""The type of block that a piece may belong to; other pieces are ignored."""


_TOO_LONG = ("prompt is too long", "context window", "context limit", "too many tokens")


class MessageUsage(msgspec.Struct, frozen=True, gc=False):
    """Token counts so far; a null or absent count keeps the earlier one."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class MessageStart(msgspec.Struct, frozen=True, gc=False):
    """The message at its start."""

    id: str = ""
    model: str = ""
    usage: MessageUsage | None = None


class MessageDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of a content block or (in `message_delta`) of the message."""

    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    content: str | None = None
    encrypted_content: str | None = None
    stop_reason: str | None = None


class StreamError(msgspec.Struct, frozen=True, gc=False):
    """An error in the stream."""

    type: str = ""
    message: str = ""


class MessageEvent(msgspec.Struct, frozen=True, gc=False):
    """Any event; its `type` says which fields it has."""

    type: str
    index: int = 0
    message: MessageStart | None = None
    content_block: dict[str, Any] | None = None
    delta: MessageDelta | None = None
    usage: MessageUsage | None = None
    error: StreamError | None = None


_decoder = msgspec.json.Decoder(MessageEvent)


def decode_event_data(data: bytes) -> MessageEvent:
    """Decode an event. Raises StreamBroken."""
    return decode_event(data, _decoder, MessageEvent)


class AnthropicReply(StreamedReply):
    """A message under construction."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, _Block] = {}

    def _take(self, data: bytes) -> str | None:
        event = decode_event_data(data)
        if event.type == "content_block_delta":
            return self._take_piece(event)
        return None if event.type == _PING else self._read_event(event)

    def _build_blocks(self, *, cut: bool) -> Iterator[Content]:
        for _, block in sorted(self._blocks.items()):
            content = block.build_block(cut)
            if content is not None:
                yield content

    def _read_event(self, event: MessageEvent) -> str:
        match event.type:
            case "content_block_start":
                return self._begin_block(event)
            case "message_start" if event.message is not None:
                self._mark_begun(event.message.id, event.message.model)
                self.usage = _merge_usage(self.usage, event.message.usage)
            case "message_delta":
                if event.delta is not None and event.delta.stop_reason:
                    self._mark_ended(event.delta.stop_reason)
                self.usage = _merge_usage(self.usage, event.usage)
            case "message_stop":
                self.finished = True
            case "error":
                raise from_error_event(event.error)
        return ""

    def _begin_block(self, event: MessageEvent) -> str:
        if len(self._blocks) >= MAX_BLOCKS:
            raise StreamBroken("blocks without an end")
        block = self._blocks[event.index] = _Block(event.content_block or {})
        return block.text

    def _take_piece(self, event: MessageEvent) -> str:
        block, delta = self._blocks.get(event.index), event.delta
        if block is None or delta is None:
            raise StreamBroken("a piece of a block that was not begun")
        if _OF_BLOCK.get(delta.type) != block.type:
            return ""
        match delta.type:
            case "text_delta":
                text = clean_text(delta.text)
                block.parts.append(text)
                return text
            case "input_json_delta":
                block.parts.append(delta.partial_json)
            case "thinking_delta":
                block.parts.append(delta.thinking)
            case "signature_delta":
                block.signature.append(delta.signature)
            case "compaction_delta":  # a single delta has all of it
                block.set_summary(delta)
        return ""


class _Block:
    """A content block under construction. Raises StreamBroken for a start without a type."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._start: dict[str, Any] = clean_json(start)
        self.type = start.get("type")
        if not isinstance(self.type, str):
            raise StreamBroken("a block without a type")
        self.text = self._get_initial("text") if self.type == "text" else ""
        self.parts = [self.text] if self.text else []
        self.signature = [self._get_initial("signature")]

    def build_block(self, cut: bool) -> Content | None:
        """Return the block, or None if it is empty, and what is wrong with a tool_use block's input."""
        added = "".join(self.parts)
        match self.type:
            case "text":
                return ({"type": "text", "text": added}, "") if added else None
            case "thinking":
                thinking, signature = (
                    self._get_initial("thinking") + clean_text(added),
                    clean_text("".join(self.signature)),
                )
                return {"type": "thinking", "thinking": thinking, "signature": signature}, ""
            case "tool_use":
                given, problem = read_input(added, self._start.get("input"), cut=cut)
                named = {"id": self._get_initial("id"), "name": self._get_initial("name")}
                return {"type": "tool_use", **named, "input": given}, problem
            case _:
                return self._start, ""

    def set_summary(self, delta: MessageDelta) -> None:
        """Store a summary as it came: it is signed and goes back unchanged."""
        stated = {"content": delta.content, "encrypted_content": delta.encrypted_content}
        self._start |= {name: value for name, value in stated.items() if value is not None}

    def _get_initial(self, field: str) -> str:
        return str(self._start.get(field) or "")


def _merge_usage(usage: Usage, news: MessageUsage | None) -> Usage:
    """Merge a report into the usage. Counts are cumulative: the last report counts."""
    if news is None:
        return usage

    def choose_latest(new: int | None, old: int) -> int:
        return old if new is None else clamp_tokens(new)

    return Usage(
        input_tokens=choose_latest(news.input_tokens, usage.input_tokens),
        output_tokens=choose_latest(news.output_tokens, usage.output_tokens),
        cache_read_tokens=choose_latest(news.cache_read_input_tokens, usage.cache_read_tokens),
        cache_creation_tokens=choose_latest(news.cache_creation_input_tokens, usage.cache_creation_tokens),
    )


def from_status(status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
    """Translate an error response. `body` is its JSON, or text."""
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    message = message if isinstance(message, str) else ""
    return from_http_status(status, message, headers, too_long=_is_too_long(message))


def from_error_event(error: StreamError | None) -> ModelFailure:
    """Translate an error event."""
    kind = error.type if error is not None else "error"
    match kind:
        case "overloaded_error" | "rate_limit_error":
            return ModelFailure("provider_overloaded", kind=kind, transient=True)
        case "timeout_error":
            return make_timeout(kind)
        case "api_error":
            return make_cut_short(kind)
        case "invalid_request_error" | "request_too_large" if error is not None and _is_too_long(
            error.message
        ):
            return ModelFailure("context_too_long", kind=kind)
        case _:
            return ModelFailure("provider_error", kind=kind)


def _is_too_long(message: str) -> bool:
    lowered = message.lower()
    return any(words in lowered for words in _TOO_LONG)
