"""Build a reply from the chunks of a completion."""

from collections.abc import Collection, Iterator
from typing import Any

from msgspec import UNSET

from agentchat.contracts.text_checks import clean_json, clean_text, shorten_line
from agentchat.contracts.values import Usage
from agentchat.orchestrator.models.loose_json import (
    TextJoiner,
    decode_object,
    encode_loose,
    get_object,
    get_objects,
    to_int,
    to_plain,
    to_text,
)
from agentchat.orchestrator.models.model_interface import clamp_tokens
from agentchat.orchestrator.models.openai import completion_errors
from agentchat.orchestrator.models.openai.request_messages import PROVIDER
from agentchat.orchestrator.models.sse_reader import StreamBroken
from agentchat.orchestrator.models.streamed_reply import MAX_BLOCKS, Content, StreamedReply, read_input
from agentchat.orchestrator.models.thinking import ThinkTags

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

    def __init__(self, offered: Collection[str]) -> None:
        self._offered = offered
        self._slots: list[_Slot] = []

    def __bool__(self) -> bool:
        return bool(self._slots)

    def take(self, piece: dict[str, Any]) -> None:
        """Add a piece. Raises StreamBroken for too many calls."""
        slot = self._find_slot(piece)
        if slot is None or slot.is_another(piece):
            if len(self._slots) >= MAX_BLOCKS:
                raise StreamBroken("calls without an end")
            slot = _Slot(to_int(piece.get("index")), self._offered)
            self._slots.append(slot)
        slot.add(piece)

    def build_blocks(self, *, cut: bool) -> Iterator[Content]:
        """Build a tool_use block for each call. A missing id stays missing."""
        seen: set[str] = set()
        for slot in self._slots:
            call_id = slot.id if slot.id not in seen else ""
            seen.add(call_id)
            yield slot.build_block(call_id, cut)

    def _find_slot(self, piece: dict[str, Any]) -> "_Slot | None":
        piece_id, index = _clean_id(piece), to_int(piece.get("index"))
        slots = [slot for slot in reversed(self._slots) if index in (None, slot.index)]
        named = next((slot for slot in slots if piece_id and slot.id == piece_id), None)
        if named is not None or (piece_id and index is None):
            return named
        return slots[0] if slots else None


class _Slot:
    """One call under construction. `offered` are the names of the tools that the model may call."""

    def __init__(self, index: int | None, offered: Collection[str]) -> None:
        self.index = index
        self.id = ""
        self._offered = offered
        self._name = ""
        self._arguments: list[str] = []
        self._extra: dict[str, Any] = {}

    def is_another(self, piece: dict[str, Any]) -> bool:
        """Return True if the piece belongs to another call, whatever its index.

        It has to name a function: old versions of vLLM make up an id for every piece. Without arguments so
        far, another name may be the next piece of this call's name, unless both are names of tools.
        """
        function, piece_id = get_object(piece, "function"), _clean_id(piece)
        name = clean_text(to_text(function.get("name")))
        if not name or not self._name:
            return False
        if piece_id and self.id:
            return piece_id != self.id
        if not self._arguments:
            return name != self._name and self._name in self._offered and name in self._offered
        return name != self._name or bool(_encode_arguments(function) and self._is_complete_input())

    def _is_complete_input(self) -> bool:
        return len(self._arguments) == 1 and not read_input(self._arguments[0])[1]

    def add(self, piece: dict[str, Any]) -> None:
        """Add a piece. A name may come in pieces, or be repeated, before the arguments."""
        function = get_object(piece, "function")
        name = clean_text(to_text(function.get("name")))
        self.id = self.id or _clean_id(piece)
        self._extra |= clean_json(to_plain(get_object(piece, "extra_content")))
        if name and not self._arguments and name != self._name:
            self._name = name if name.startswith(self._name) else self._name + name
        if arguments := _encode_arguments(function):
            self._arguments.append(arguments)

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


def _encode_arguments(function: dict[str, Any]) -> str:
    """Return a piece of the arguments' JSON; some servers send the complete object instead of text."""
    given = function.get("arguments")
    return given if isinstance(given, str) else "" if given is None else encode_loose(given)


def _clean_id(piece: dict[str, Any]) -> str:
    return shorten_line(to_text(piece.get("id")), _ID_CHARS)


class OpenAIReply(StreamedReply):
    """A completion under construction.

    If no choice says why it ended, `[DONE]` is its end, or the usage after its text.
    """

    def __init__(self, offered: Collection[str] = (), *, think_tags: bool = False) -> None:
        super().__init__()
        self._tags = ThinkTags() if think_tags else None
        self._said: list[str] = []
        self._joiner = TextJoiner()
        self._thought: list[str] = []
        self._thought_field = ""
        self._refused = False
        self._calls = StreamedToolCalls(offered)
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
            thinking = {"type": "thinking", "thinking": clean_text("".join(self._thought)), "signature": ""}
            yield thinking | {"provider_data": {PROVIDER: {"field": self._thought_field}}}

    def _build_text(self) -> Iterator[dict[str, Any]]:
        if self._said:
            yield {"type": "text", "text": "".join(self._said)}

    def _take(self, kind: bytes, data: bytes) -> str | None:
        if data.strip() == b"[DONE]":
            self.finished = True
            return self._flush()
        return None if kind == b"ping" else self._read_event(decode_object(data))

    def _read_event(self, chunk: dict[str, Any]) -> str:
        error = chunk.get("error")
        if error is None and chunk.get("object") == "error":  # vLLM, Mistral
            error = {name: chunk.get(name) for name in ("message", "type", "code")}
        if error is not None:
            raise completion_errors.from_error(error)
        self._mark_begun(chunk.get("id"), chunk.get("model"))
        choices = get_objects(chunk, "choices")
        self._take_usage(chunk, choices)
        said = ""
        for choice in choices:
            said += self._take_message(choice)
            if reason := to_text(choice.get("finish_reason")):
                said += self._flush()
                self._finish(reason)
        return said

    def _finish(self, reason: str) -> None:
        if (failure := completion_errors.check_finish_reason(reason)) is not None:
            raise failure
        self._mark_ended(reason)

    def _take_message(self, choice: dict[str, Any]) -> str:
        """Take the delta, or the complete message of a server that does not stream, or a plain completion."""
        said = self._take_delta(get_object(choice, "delta"))
        if said or self._said or self._calls:
            return said
        return self._take_delta(get_object(choice, "message")) or self._say(
            self._joiner.join(to_text(choice.get("text")))
        )

    def _take_delta(self, delta: dict[str, Any]) -> str:
        text, thought = _split_content(delta.get("content"))
        self._take_thought(thought, "")
        for field in ("reasoning_content", "reasoning"):
            self._take_thought(to_text(delta.get(field)), field)
        self._refused = self._refused or bool(delta.get("refusal"))
        for call in get_objects(delta, "tool_calls"):
            self._calls.take(call)
        return self._say(self._joiner.join(text)) if text else ""

    def _flush(self) -> str:
        """Return the rest of the text."""
        said = self._say(self._joiner.flush())
        if self._tags is None:
            return said
        text, thought = self._tags.flush()
        self._take_thought(thought, "")
        self._said += [text] if text else []
        return said + text

    def _say(self, text: str) -> str:
        if self._tags is not None:
            text, thought = self._tags.split(text)
            self._take_thought(thought, "")
        if text:
            self._said.append(text)
        return text

    def _take_thought(self, thought: str, field: str) -> None:
        """Add thinking. If a server sends it in two fields at once (OpenRouter), the first one counts."""
        if thought and self._thought_field in ("", field):
            self._thought_field = field
            self._thought.append(thought)
            self._add_thinking(thought)

    def _take_usage(self, chunk: dict[str, Any], choices: list[dict[str, Any]]) -> None:
        """Store the usage, of which the last report counts. Groq and Moonshot have places of their own."""
        reported = [get_object(place, "usage") for place in (chunk, *choices, get_object(chunk, "x_groq"))]
        for usage in filter(None, reported):
            self.usage = _convert_usage(usage)
        self._counted_last = not choices and any(reported)


def _split_content(content: Any) -> tuple[str, str]:
    """Return the text and the thinking of a piece of content: a scalar, a part, or a list of either."""
    match content:
        case list():
            pieces = [_split_content(part) for part in content]
            return "".join(text for text, _ in pieces), "".join(thought for _, thought in pieces)
        case {"type": "thinking", "thinking": thinking}:  # Mistral
            return "", "".join(_split_content(thinking))
        case {"text": text}:
            return to_text(text), ""
        case _:
            return to_text(content), ""


def _convert_usage(reported: dict[str, Any]) -> Usage:
    """Convert a report. Cached tokens are part of `prompt_tokens`, but not of our `input_tokens`.

    Some servers leave reasoning out of `completion_tokens` (xAI, Gemini), never out of the total.
    """

    def count(value: dict[str, Any], *names: str) -> int:
        return next((found for name in names if (found := to_int(value.get(name)))), 0)

    details = get_object(reported, "prompt_tokens_details")
    completion = get_object(reported, "completion_tokens_details")
    prompt = count(reported, "prompt_tokens")
    written = count(details, "cache_write_tokens")  # OpenRouter
    read = count(details, "cached_tokens") or count(
        reported,
        "prompt_cache_hit_tokens",  # DeepSeek
        "cached_tokens",  # Moonshot
    )
    output = max(count(reported, "completion_tokens"), count(reported, "total_tokens") - prompt)
    return Usage(
        input_tokens=clamp_tokens(prompt - read - written),
        output_tokens=clamp_tokens(output),
        cache_read_tokens=clamp_tokens(read),
        cache_creation_tokens=clamp_tokens(written),
        reasoning_tokens=clamp_tokens(count(completion, "reasoning_tokens")) or UNSET,
    )
