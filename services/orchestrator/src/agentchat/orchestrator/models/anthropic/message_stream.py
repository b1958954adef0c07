"""Read the stream of a message, and translate its errors.

Unknown events and fields are ignored. An error in the middle of a stream is recognised by its type: its
status is 200.

Source: the Messages API's streaming page.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from agentchat.contracts.text_checks import clean_json, clean_text
from agentchat.contracts.values import Usage
from agentchat.orchestrator.models.error_statuses import from_http_status
from agentchat.orchestrator.models.loose_json import (
    TextJoiner,
    decode_object,
    encode_loose,
    get_object,
    to_int,
    to_plain,
    to_text,
)
from agentchat.orchestrator.models.model_interface import (
    ModelFailure,
    clamp_tokens,
    make_cut_short,
    make_timeout,
)
from agentchat.orchestrator.models.sse_reader import StreamBroken
from agentchat.orchestrator.models.streamed_reply import MAX_BLOCKS, Content, StreamedReply, read_input

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


class AnthropicReply(StreamedReply):
    """A message under construction."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, _Block] = {}
        self._last = 0  # the index of the block that started last

    def _take(self, kind: bytes, data: bytes) -> str | None:
        event = decode_object(data)
        name = to_text(event.get("type")) or kind.decode(errors="replace")
        if name == "content_block_delta":
            return self._take_piece(event)
        return None if name == _PING else self._read_event(name, event)

    def _build_blocks(self, *, cut: bool) -> Iterator[Content]:
        for _, block in sorted(self._blocks.items()):
            content = block.build_block(cut)
            if content is not None:
                yield content

    def _read_event(self, name: str, event: dict[str, Any]) -> str:
        match name:
            case "content_block_start":
                return self._begin_block(event)
            case "content_block_stop":
                return self._end_block(event)
            case "message_start":
                message = get_object(event, "message")
                self._mark_begun(message.get("id"), message.get("model"))
                self.usage = _merge_usage(self.usage, get_object(message, "usage"))
            case "message_delta":
                if reason := to_text(get_object(event, "delta").get("stop_reason")):
                    self._mark_ended(reason)
                self.usage = _merge_usage(self.usage, get_object(event, "usage"))
            case "message_stop":
                self.finished = True
            case "error":
                raise from_error_event(event.get("error"))
        return ""

    def _begin_block(self, event: dict[str, Any]) -> str:
        if len(self._blocks) >= MAX_BLOCKS:
            raise StreamBroken("blocks without an end")
        index = to_int(event.get("index"))
        self._last = len(self._blocks) if index is None else index
        block = self._blocks[self._last] = _Block(get_object(event, "content_block"))
        if block.type == "thinking":
            self._begin_thinking()
            self._add_thinking(block.get_initial("thinking"))
        return block.begin()

    def _end_block(self, event: dict[str, Any]) -> str:
        block = self._find_block(event)
        return block.end() if block is not None else ""

    def _find_block(self, event: dict[str, Any]) -> "_Block | None":
        index = to_int(event.get("index"))
        return self._blocks.get(self._last if index is None else index)

    def _take_piece(self, event: dict[str, Any]) -> str:
        block, delta = self._find_block(event), get_object(event, "delta")
        if block is None or not delta:
            raise StreamBroken("a piece of a block that was not begun")
        kind = to_text(delta.get("type"))
        if _OF_BLOCK.get(kind) != block.type:
            return ""
        match kind:
            case "text_delta":
                return block.add_text(to_text(delta.get("text")))
            case "input_json_delta":
                block.add(to_text(delta.get("partial_json")))
            case "thinking_delta":
                thought = to_text(delta.get("thinking"))
                block.add(thought)
                self._add_thinking(thought)
            case "signature_delta":
                block.signature.append(to_text(delta.get("signature")))
            case "compaction_delta":  # a single delta has all of it
                block.set_summary(delta)
        return ""


class _Block:
    """A content block under construction. Raises StreamBroken for a start without a type."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._start = start
        self.type = start.get("type")
        if not isinstance(self.type, str):
            raise StreamBroken("a block without a type")
        self._joiner = TextJoiner()
        self._parts: list[str] = []
        self.signature = [self.get_initial("signature")]

    def begin(self) -> str:
        """Return the text that the block starts with."""
        return self.add_text(self.get_initial("text")) if self.type == "text" else ""

    def add(self, piece: str) -> None:
        """Add a piece of what readers do not see."""
        self._parts.append(piece)

    def add_text(self, piece: str) -> str:
        """Add a piece of text, and return what it adds for readers."""
        text = self._joiner.join(piece)
        self._parts.append(text)
        return text

    def end(self) -> str:
        """Return the rest of the text."""
        rest = self._joiner.flush()
        self._parts.append(rest)
        return rest

    def build_block(self, cut: bool) -> Content | None:
        """Return the block, or None if it is empty, and what is wrong with a tool_use block's input."""
        added = "".join(self._parts)
        match self.type:
            case "text":
                return ({"type": "text", "text": added}, "") if added else None
            case "thinking":
                thinking = clean_text(self.get_initial("thinking") + added)
                signature = clean_text("".join(self.signature))
                return {"type": "thinking", "thinking": thinking, "signature": signature}, ""
            case "tool_use":
                begun_with = self._start.get("input")
                given, problem = read_input(
                    added or (encode_loose(begun_with) if begun_with else ""), cut=cut
                )
                named = {name: clean_text(self.get_initial(name)) for name in ("id", "name")}
                return {"type": "tool_use", **named, "input": given}, problem
            case _:
                return clean_json(to_plain(self._start)), ""

    def set_summary(self, delta: dict[str, Any]) -> None:
        """Store a summary as it came: it is signed and goes back unchanged."""
        names = ("content", "encrypted_content")
        self._start |= {name: delta[name] for name in names if delta.get(name) is not None}

    def get_initial(self, field: str) -> str:
        """Return what the block's start has of a field."""
        return to_text(self._start.get(field))


def _merge_usage(usage: Usage, news: dict[str, Any]) -> Usage:
    """Merge a report into the usage. Counts are cumulative: the last report counts."""

    def choose_latest(name: str, old: int) -> int:
        new = to_int(news.get(name))
        return old if new is None else clamp_tokens(new)

    details = get_object(news, "output_tokens_details")
    return Usage(
        input_tokens=choose_latest("input_tokens", usage.input_tokens),
        output_tokens=choose_latest("output_tokens", usage.output_tokens),
        cache_read_tokens=choose_latest("cache_read_input_tokens", usage.cache_read_tokens),
        cache_creation_tokens=choose_latest("cache_creation_input_tokens", usage.cache_creation_tokens),
        reasoning_tokens=clamp_tokens(to_int(details.get("thinking_tokens"))) or usage.reasoning_tokens,
    )


def from_status(status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
    """Translate an error response. `body` is its JSON, or text."""
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    message = message if isinstance(message, str) else ""
    return from_http_status(status, message, headers, too_long=_is_too_long(message))


def from_error_event(error: Any) -> ModelFailure:
    """Translate an error event."""
    kind = to_text(error.get("type")) if isinstance(error, dict) else ""
    message = to_text(error.get("message")) if isinstance(error, dict) else to_text(error)
    match kind or "error":
        case "overloaded_error" | "rate_limit_error":
            return ModelFailure("provider_overloaded", kind=kind, transient=True)
        case "timeout_error":
            return make_timeout(kind)
        case "api_error":
            return make_cut_short(kind)
        case "invalid_request_error" | "request_too_large" if _is_too_long(message):
            return ModelFailure("context_too_long", kind=kind)
        case _:
            return ModelFailure("provider_error", kind=kind or "error", provider_message=message)


def _is_too_long(message: str) -> bool:
    lowered = message.lower()
    return any(words in lowered for words in _TOO_LONG)
