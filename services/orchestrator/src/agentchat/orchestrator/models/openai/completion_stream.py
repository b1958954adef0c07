"""Build a reply from the chunks of a completion."""

from collections.abc import Iterator
from typing import Any

import msgspec

from agentchat.contracts.text import clean_json, clean_text, shorten_line
from agentchat.contracts.values import Usage
from agentchat.orchestrator.models.openai import completion_chunks as wire
from agentchat.orchestrator.models.openai.request_messages import PROVIDER
from agentchat.orchestrator.models.port import clamp_tokens
from agentchat.orchestrator.models.reply_builder import (
    MAX_BLOCKS,
    Content,
    StreamBroken,
    StreamedReply,
    read_input,
)

_ID_CHARS = 200
_OUR_ID = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")

_STOP_REASONS = {
    "length": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refusal",
}
_ENDS = frozenset({"", "stop", "tool_calls", "function_call", "eos"})
"""Finish reasons of a reply that ended by itself, with or without calls."""


class StreamedToolCalls:
    """The calls of a reply, in the order of arrival.

    A piece belongs to the call of its index, else of its id, else to the last one. Some servers repeat the id
    and the name with every piece; Ollama and Gemini send several calls with one index, each in one piece, so
    a piece that names a function may start another call.
    """

    def __init__(self) -> None:
        self._slots: list[_Slot] = []

    def __bool__(self) -> bool:
        return bool(self._slots)

    def take(self, piece: wire.ToolCallDelta) -> None:
        """Add a piece. Raises StreamBroken for too many calls."""
        slot = self._find_slot(piece)
        if slot is None or slot.is_another(piece):
            if len(self._slots) >= MAX_BLOCKS:
                raise StreamBroken("calls without an end")
            slot = _Slot(piece.index)
            self._slots.append(slot)
        slot.add(piece)

    def build_blocks(self, *, cut: bool) -> Iterator[Content]:
        """Build a tool_use block for each call. A missing id stays missing."""
        seen: set[str] = set()
        for slot in self._slots:
            call_id = slot.id if slot.id not in seen else ""
            seen.add(call_id)
            yield slot.build_block(call_id, cut)

    def _find_slot(self, piece: wire.ToolCallDelta) -> "_Slot | None":
        piece_id = _clean_id(piece)
        slots = [slot for slot in reversed(self._slots) if piece.index in (None, slot.index)]
        named = next((slot for slot in slots if piece_id and slot.id == piece_id), None)
        if named is not None or (piece_id and piece.index is None):
            return named
        return slots[0] if slots else None


class _Slot:
    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self._name = ""
        self._arguments: list[str] = []
        self._extra: dict[str, Any] = {}

    def is_another(self, piece: wire.ToolCallDelta) -> bool:
        """Return True if the piece belongs to another call, whatever its index.

        Only if it names a function: old versions of vLLM make up an id for every piece.
        """
        function, piece_id = piece.function, _clean_id(piece)
        if function is None or not function.name or not self._name:
            return False
        if piece_id and self.id:
            return piece_id != self.id
        return clean_text(function.name) != self._name or bool(
            function.arguments and self._is_complete_input()
        )

    def _is_complete_input(self) -> bool:
        return len(self._arguments) == 1 and not read_input(self._arguments[0])[1]

    def add(self, piece: wire.ToolCallDelta) -> None:
        self.id = self.id or _clean_id(piece)
        self._extra |= clean_json(piece.extra_content or {})
        if piece.function is not None:
            self._name = self._name or clean_text(piece.function.name or "")
            given = piece.function.arguments
            if given is not None and given != "":
                is_object = not isinstance(given, str)
                self._arguments.append(
                    msgspec.json.encode(clean_json(given)).decode() if is_object else given
                )

    def build_block(self, call_id: str, cut: bool) -> Content:
        given, problem = read_input("".join(self._arguments).strip(), cut=cut)
        data: dict[str, Any] = {}
        if not _OUR_ID.issuperset(
            call_id
        ):  # the log does not keep such an id; Kimi's models need it unchanged
            data["id"] = call_id
        if self._extra:
            data["extra_content"] = self._extra
        block = {"type": "tool_use", "id": call_id, "name": self._name, "input": given}
        return block | {"provider_data": {PROVIDER: data}} if data else block, problem


def _clean_id(piece: wire.ToolCallDelta) -> str:
    return shorten_line(piece.id or "", _ID_CHARS)


class OpenAIReply(StreamedReply):
    """A completion under construction.

    If no choice says why it ended, `[DONE]` is its end, or the usage after its text.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: list[str] = []
        self._thought: list[str] = []
        self._thought_field = ""
        self._refused = False
        self._calls = StreamedToolCalls()
        self._counted_last = False

    def _is_complete(self) -> bool:
        counted = self._counted_last and not self._events.within and not self._calls
        return self.ended or self.finished or counted

    def _stop_reason(self) -> str:
        raw = self._raw_stop_reason or ""
        if self._refused:
            return "refusal"
        if raw in _ENDS:
            return "tool_use" if self._calls else "end_turn"
        return _STOP_REASONS.get(raw, raw)

    def _build_blocks(self, *, cut: bool) -> Iterator[Content]:
        for block in (*self._build_thinking(), *self._build_text()):
            yield block, ""
        yield from self._calls.build_blocks(cut=cut)

    def _build_thinking(self) -> Iterator[dict[str, Any]]:
        """Build a thinking block without a signature: only servers of this API get it back."""
        if self._thought:
            thinking = {"type": "thinking", "thinking": "".join(self._thought), "signature": ""}
            yield thinking | {"provider_data": {PROVIDER: {"field": self._thought_field}}}

    def _build_text(self) -> Iterator[dict[str, Any]]:
        if self._said:
            yield {"type": "text", "text": "".join(self._said)}

    def _take(self, data: bytes) -> str:
        if data.strip() == b"[DONE]":
            self.finished = True
            return ""
        return self._read_event(wire.decode_chunk(data))

    def _read_event(self, chunk: wire.CompletionChunk) -> str:
        error = chunk.error
        if error is None and chunk.object == "error":
            error = {"message": chunk.message, "type": chunk.type, "code": chunk.code}
        if error is not None:
            raise wire.from_error(error)
        self._mark_begun(chunk.id, chunk.model)
        self._take_usage(chunk)
        text_part = ""
        for choice in chunk.choices or ():
            if choice.delta is not None:
                text_part += self._take_delta(choice.delta)
            if choice.finish_reason:
                self._finish(choice.finish_reason)
        return text_part

    def _finish(self, reason: str) -> None:
        if (failure := wire.check_finish_reason(reason)) is not None:
            raise failure
        self._mark_ended(reason)

    def _take_delta(self, delta: wire.ChunkDelta) -> str:
        text, thought = _split_content(delta.content)
        self._take_thought(thought, "")
        self._take_thought(delta.reasoning_content, "reasoning_content")
        self._take_thought(delta.reasoning, "reasoning")
        self._refused = self._refused or bool(delta.refusal)
        for call in delta.tool_calls or ():
            self._calls.take(call)
        if text:
            self._said.append(text)
        return text

    def _take_thought(self, thought: Any, field: str) -> None:
        """Add thinking. If a server sends it in two fields at once (OpenRouter), the first one counts."""
        if isinstance(thought, str) and thought and self._thought_field in ("", field):
            self._thought_field = field
            self._thought.append(clean_text(thought))

    def _take_usage(self, chunk: wire.CompletionChunk) -> None:
        """Store the usage. Counts are cumulative: the last report counts."""
        reported = [chunk.usage, *(choice.usage for choice in chunk.choices or ())]
        if chunk.x_groq is not None:
            reported.append(chunk.x_groq.usage)
        for usage in reported:
            if usage is not None:
                self.usage = _convert_usage(usage)
        self._counted_last = not chunk.choices and any(reported)


def _split_content(content: Any) -> tuple[str, str]:
    """Return the text and the thinking of a piece of content, which may be a list of parts."""
    if isinstance(content, str):
        return clean_text(content), ""
    text, thought = "", ""
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "text", "text": str(text_part)}:
                text += text_part
            case {"type": "thinking", "thinking": thinking}:
                thought += "".join(_split_content(thinking))
            case _:
                pass
    return clean_text(text), thought


def _convert_usage(reported: wire.ChunkUsage) -> Usage:
    """Convert a report. Cached tokens are part of `prompt_tokens`, but not of our `input_tokens`.

    Some servers leave reasoning out of `completion_tokens` (xAI, Gemini), never out of the total.
    """
    details = reported.prompt_tokens_details
    prompt, written = reported.prompt_tokens or 0, (details and details.cache_write_tokens) or 0
    read = (
        (details and details.cached_tokens) or reported.prompt_cache_hit_tokens or reported.cached_tokens or 0
    )
    output = max(reported.completion_tokens or 0, (reported.total_tokens or 0) - prompt)
    return Usage(
        input_tokens=clamp_tokens(prompt - read - written),
        output_tokens=clamp_tokens(output),
        cache_read_tokens=clamp_tokens(read),
        cache_creation_tokens=clamp_tokens(written),
    )
