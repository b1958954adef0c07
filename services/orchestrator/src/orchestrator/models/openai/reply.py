"""A reply while it is built from a stream, and when it is complete."""

from collections.abc import Iterator
from typing import Any

from contracts.text import cleaned
from contracts.values import Usage
from orchestrator.models.openai.failures import from_error, unfinished
from orchestrator.models.openai.request_messages import PROVIDER
from orchestrator.models.openai.tool_call_pieces import ToolCalls
from orchestrator.models.openai.wire import ChunkDelta, ChunkUsage, WireChunk, chunk_of
from orchestrator.models.port import tokens
from orchestrator.models.reply_builder import Content, StreamedReply

_STOP_REASONS = {
    "length": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refusal",
}
_ENDS = frozenset({"", "stop", "tool_calls", "function_call", "eos"})
"""A reply that ended by itself; whether it calls tools is seen by its calls."""


class OpenAIReply(StreamedReply):
    """A completion. Where no choice says why it ended, `[DONE]` is its end, or the usage after its text."""

    def __init__(self) -> None:
        super().__init__()
        self._said: list[str] = []
        self._thought: list[str] = []
        self._thought_field = ""
        self._refused = False
        self._calls = ToolCalls()
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

    def _contents(self, *, cut: bool) -> Iterator[Content]:
        for block in (*self._thinking(), *self._text()):
            yield block, ""
        yield from self._calls.blocks(cut=cut)

    def _thinking(self) -> Iterator[dict[str, Any]]:
        """A thinking block without a signature: only a server of this API gets it back."""
        if self._thought:
            thinking = {"type": "thinking", "thinking": "".join(self._thought), "signature": ""}
            yield thinking | {"provider_data": {PROVIDER: {"field": self._thought_field}}}

    def _text(self) -> Iterator[dict[str, Any]]:
        if self._said:
            yield {"type": "text", "text": "".join(self._said)}

    def _take(self, data: bytes) -> str:
        if data.strip() == b"[DONE]":
            self.finished = True
            return ""
        return self._text_of(chunk_of(data))

    def _text_of(self, chunk: WireChunk) -> str:
        error = chunk.error
        if error is None and chunk.object == "error":
            error = {"message": chunk.message, "type": chunk.type, "code": chunk.code}
        if error is not None:
            raise from_error(error)
        self._begins(chunk.id, chunk.model)
        self._take_usage(chunk)
        text_part = ""
        for choice in chunk.choices or ():
            if choice.delta is not None:
                text_part += self._take_delta(choice.delta)
            if choice.finish_reason:
                self._finish(choice.finish_reason)
        return text_part

    def _finish(self, reason: str) -> None:
        if (failure := unfinished(reason)) is not None:
            raise failure
        self._ends(reason)

    def _take_delta(self, delta: ChunkDelta) -> str:
        text, thought = _parts(delta.content)
        self._think(thought, "")
        self._think(delta.reasoning_content, "reasoning_content")
        self._think(delta.reasoning, "reasoning")
        self._refused = self._refused or bool(delta.refusal)
        for call in delta.tool_calls or ():
            self._calls.take(call)
        if text:
            self._said.append(text)
        return text

    def _think(self, thought: Any, field: str) -> None:
        """OpenRouter and some others send it in two fields at once: the first one counts."""
        if isinstance(thought, str) and thought and self._thought_field in ("", field):
            self._thought_field = field
            self._thought.append(cleaned(thought))

    def _take_usage(self, chunk: WireChunk) -> None:
        """Counts are those of the complete call so far: the last report counts."""
        reported = [chunk.usage, *(choice.usage for choice in chunk.choices or ())]
        if chunk.x_groq is not None:
            reported.append(chunk.x_groq.usage)
        for usage in reported:
            if usage is not None:
                self.usage = _usage(usage)
        self._counted_last = not chunk.choices and any(reported)


def _parts(content: Any) -> tuple[str, str]:
    """The text and the thinking of a piece of content, which may be a list of parts."""
    if isinstance(content, str):
        return cleaned(content), ""
    text, thought = "", ""
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "text", "text": str(text_part)}:
                text += text_part
            case {"type": "thinking", "thinking": thinking}:
                thought += "".join(_parts(thinking))
            case _:
                pass
    return cleaned(text), thought


def _usage(reported: ChunkUsage) -> Usage:
    """What was read from a cache is part of `prompt_tokens`, and no part of our `input_tokens`.

    Some leave reasoning out of `completion_tokens` (xAI, Gemini), never out of the total.
    """
    details = reported.prompt_tokens_details
    prompt, written = reported.prompt_tokens or 0, (details and details.cache_write_tokens) or 0
    read = (
        (details and details.cached_tokens) or reported.prompt_cache_hit_tokens or reported.cached_tokens or 0
    )
    output = max(reported.completion_tokens or 0, (reported.total_tokens or 0) - prompt)
    return Usage(
        input_tokens=tokens(prompt - read - written),
        output_tokens=tokens(output),
        cache_read_tokens=tokens(read),
        cache_creation_tokens=tokens(written),
    )
