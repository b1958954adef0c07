"""A reply while it is built from a stream, and when it is complete; and what errors mean, as our codes.

Events and fields that are new are let pass. An error in the middle of a stream is known by its type: its
status is 200.

Source: the Messages API's streaming page.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agentchat.contracts.text import cleaned, cleaned_json
from agentchat.contracts.values import Usage
from agentchat.orchestrator.models.port import ModelFailure, cut_short, timed_out, tokens
from agentchat.orchestrator.models.provider_calls import of_status
from agentchat.orchestrator.models.reply_builder import (
    MAX_BLOCKS,
    Content,
    StreamBroken,
    StreamedReply,
    decoded,
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
"""Which block a piece may belong to; others are let pass, as what is new is."""


_TOO_LONG = ("prompt is too long", "context window", "context limit", "too many tokens")


class WireUsage(msgspec.Struct, frozen=True, gc=False):
    """Tokens so far; a null or absent count is not news."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class WireMessage(msgspec.Struct, frozen=True, gc=False):
    id: str = ""
    model: str = ""
    usage: WireUsage | None = None


class WireDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of a content block, or (in `message_delta`) of the message."""

    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    content: str | None = None
    encrypted_content: str | None = None
    stop_reason: str | None = None


class WireError(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    message: str = ""


class WireEvent(msgspec.Struct, frozen=True, gc=False):
    """Any event: which fields it has goes by its `type`."""

    type: str
    index: int = 0
    message: WireMessage | None = None
    content_block: dict[str, Any] | None = None
    delta: WireDelta | None = None
    usage: WireUsage | None = None
    error: WireError | None = None


_decoder = msgspec.json.Decoder(WireEvent)


def event_of(data: bytes) -> WireEvent:
    """The event that `data` is. Raises StreamBroken."""
    return decoded(data, _decoder, WireEvent)


class AnthropicReply(StreamedReply):
    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, _Block] = {}

    def _take(self, data: bytes) -> str | None:
        event = event_of(data)
        if event.type == "content_block_delta":
            return self._take_piece(event)
        return None if event.type == _PING else self._text_of(event)

    def _contents(self, *, cut: bool) -> Iterator[Content]:
        for _, block in sorted(self._blocks.items()):
            content = block.content(cut)
            if content is not None:
                yield content

    def _text_of(self, event: WireEvent) -> str:
        match event.type:
            case "content_block_start":
                return self._begin_block(event)
            case "message_start" if event.message is not None:
                self._begins(event.message.id, event.message.model)
                self.usage = _updated(self.usage, event.message.usage)
            case "message_delta":
                if event.delta is not None and event.delta.stop_reason:
                    self._ends(event.delta.stop_reason)
                self.usage = _updated(self.usage, event.usage)
            case "message_stop":
                self.finished = True
            case "error":
                raise from_error_event(event.error)
        return ""

    def _begin_block(self, event: WireEvent) -> str:
        if len(self._blocks) >= MAX_BLOCKS:
            raise StreamBroken("blocks without an end")
        block = self._blocks[event.index] = _Block(event.content_block or {})
        return block.text

    def _take_piece(self, event: WireEvent) -> str:
        block, delta = self._blocks.get(event.index), event.delta
        if block is None or delta is None:
            raise StreamBroken("a piece of a block that was not begun")
        if _OF_BLOCK.get(delta.type) != block.type:
            return ""
        match delta.type:
            case "text_delta":
                text = cleaned(delta.text)
                block.parts.append(text)
                return text
            case "input_json_delta":
                block.parts.append(delta.partial_json)
            case "thinking_delta":
                block.parts.append(delta.thinking)
            case "signature_delta":
                block.signature.append(delta.signature)
            case "compaction_delta":  # one, which has all of it
                block.summarised(delta)
        return ""


class _Block:
    """A content block under construction: what it began with, and what was added since.

    Raises StreamBroken for a beginning that is none.
    """

    def __init__(self, start: dict[str, Any]) -> None:
        self._start: dict[str, Any] = cleaned_json(start)
        self.type = start.get("type")
        if not isinstance(self.type, str):
            raise StreamBroken("a block without a type")
        self.text = self._began("text") if self.type == "text" else ""
        self.parts = [self.text] if self.text else []
        self.signature = [self._began("signature")]

    def content(self, cut: bool) -> Content | None:
        """The block, or None where it is empty; and what is wrong with a tool_use block's input."""
        added = "".join(self.parts)
        match self.type:
            case "text":
                return ({"type": "text", "text": added}, "") if added else None
            case "thinking":
                thinking, signature = (
                    self._began("thinking") + cleaned(added),
                    cleaned("".join(self.signature)),
                )
                return {"type": "thinking", "thinking": thinking, "signature": signature}, ""
            case "tool_use":
                given, problem = read_input(added, self._start.get("input"), cut=cut)
                named = {"id": self._began("id"), "name": self._began("name")}
                return {"type": "tool_use", **named, "input": given}, problem
            case _:
                return self._start, ""

    def summarised(self, delta: WireDelta) -> None:
        """A summary goes back as it came: it is signed."""
        stated = {"content": delta.content, "encrypted_content": delta.encrypted_content}
        self._start |= {name: value for name, value in stated.items() if value is not None}

    def _began(self, field: str) -> str:
        return str(self._start.get(field) or "")


def _updated(usage: Usage, news: WireUsage | None) -> Usage:
    """Counts are cumulative: the last report counts."""
    if news is None:
        return usage

    def latest(new: int | None, old: int) -> int:
        return old if new is None else tokens(new)

    return Usage(
        input_tokens=latest(news.input_tokens, usage.input_tokens),
        output_tokens=latest(news.output_tokens, usage.output_tokens),
        cache_read_tokens=latest(news.cache_read_input_tokens, usage.cache_read_tokens),
        cache_creation_tokens=latest(news.cache_creation_input_tokens, usage.cache_creation_tokens),
    )


def from_status(status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
    """An answer that is no success. `body` is its JSON, or text that is none."""
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    message = message if isinstance(message, str) else ""
    return of_status(status, message, headers, too_long=_says_too_long(message))


def from_error_event(error: WireError | None) -> ModelFailure:
    kind = error.type if error is not None else "error"
    match kind:
        case "overloaded_error" | "rate_limit_error":
            return ModelFailure("provider_overloaded", kind=kind, transient=True)
        case "timeout_error":
            return timed_out(kind)
        case "api_error":
            return cut_short(kind)
        case "invalid_request_error" | "request_too_large" if error is not None and _says_too_long(
            error.message
        ):
            return ModelFailure("context_too_long", kind=kind)
        case _:
            return ModelFailure("provider_error", kind=kind)


def _says_too_long(message: str) -> bool:
    lowered = message.lower()
    return any(words in lowered for words in _TOO_LONG)
