"""A reply while it is put together from a stream, and when it is whole."""

from collections.abc import Iterator
from typing import Any

from contracts.text import cleaned
from contracts.values import Usage
from orchestrator.models.openai.failures import from_error, unfinished
from orchestrator.models.openai.messages import PROVIDER
from orchestrator.models.openai.tool_calls import ToolCalls
from orchestrator.models.openai.wire import WireChunk, WireDelta, WireUsage, chunk_of
from orchestrator.models.port import Reply, tokens
from orchestrator.models.sse import EventReader, StreamBroken

_STOP_REASONS = {
    "length": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refusal",
}
_ENDS = frozenset({"", "stop", "tool_calls", "function_call", "eos"})
"""A reply that ended by itself; whether it calls tools is seen by its calls."""


class OpenAIReply:
    """Takes the bytes of one stream. Raises StreamBroken, and ModelFailure for an error sent in it."""

    def __init__(self) -> None:
        self.finished = False
        self.begun = False
        self.usage = Usage()
        self._reader = EventReader()
        self._said: list[str] = []
        self._thought: list[str] = []
        self._thought_field = ""
        self._refused = False
        self._calls = ToolCalls()
        self._finish_reason: str | None = None
        self._message_id = ""
        self._model = ""
        self._counted = False

    def feed(self, chunk: bytes) -> tuple[str, bool]:
        """The text that `chunk` adds, and whether it held an event: comments are pings."""
        said: list[str] = []
        alive = False
        for data in self._reader.feed(chunk):
            alive = True
            if data.strip() == b"[DONE]":
                self.finished = True
            if self.finished:
                break
            said.append(self._take(chunk_of(data)))
        return "".join(said), alive

    def whole(self) -> Reply:
        """The reply. It has come to its end where the stream said why, or said its last word.

        Raises StreamBroken for one that only stopped.
        """
        if self._finish_reason is None and not self.finished and not self._counted:
            raise StreamBroken("the stream ended before the reply did")
        raw = self._finish_reason or ""
        blocks = [*self._thinking(), *self._text()]
        bad: dict[int, str] = {}
        for block, problem in self._calls.blocks():
            if problem:
                bad[len(blocks)] = problem
            blocks.append(block)
        return Reply(
            blocks=tuple(blocks),
            stop_reason=self._stop_reason(raw),
            raw_stop_reason=raw,
            message_id=self._message_id,
            model=self._model,
            bad_inputs=bad,
        )

    def _stop_reason(self, raw: str) -> str:
        if self._refused:
            return "refusal"
        if raw in _ENDS:
            return "tool_use" if self._calls else "end_turn"
        return _STOP_REASONS.get(raw, raw)

    def _thinking(self) -> Iterator[dict[str, Any]]:
        """A thinking block without a signature: only a server of this API gets it back."""
        if self._thought:
            thinking = {"type": "thinking", "thinking": "".join(self._thought), "signature": ""}
            yield thinking | {"provider_data": {PROVIDER: {"field": self._thought_field}}}

    def _text(self) -> Iterator[dict[str, Any]]:
        if self._said:
            yield {"type": "text", "text": "".join(self._said)}

    def _take(self, chunk: WireChunk) -> str:
        error = chunk.error
        if error is None and chunk.object == "error":
            error = {"message": chunk.message, "type": chunk.type, "code": chunk.code}
        if error is not None:
            raise from_error(error)
        self.begun = True
        self._message_id = self._message_id or chunk.id or ""
        self._model = self._model or chunk.model or ""
        self._take_usage(chunk)
        said = ""
        for choice in chunk.choices or ():
            if choice.delta is not None:
                said += self._take_delta(choice.delta)
            if choice.finish_reason:
                self._finish(choice.finish_reason)
        return said

    def _finish(self, reason: str) -> None:
        if (failure := unfinished(reason)) is not None:
            raise failure
        self._finish_reason = reason

    def _take_delta(self, delta: WireDelta) -> str:
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
        """OpenRouter and some others tell it in two fields at once: the first one counts."""
        if isinstance(thought, str) and thought and self._thought_field in ("", field):
            self._thought_field = field
            self._thought.append(cleaned(thought))

    def _take_usage(self, chunk: WireChunk) -> None:
        """Counts are those of the whole call so far: what is told last stands."""
        told = [chunk.usage, *(choice.usage for choice in chunk.choices or ())]
        if chunk.x_groq is not None:
            told.append(chunk.x_groq.usage)
        for usage in told:
            if usage is not None:
                self.usage = _usage(usage)
                self._counted = self._counted or not chunk.choices


def _parts(content: Any) -> tuple[str, str]:
    """The text and the thinking of a piece of content, which may be a list of parts."""
    if isinstance(content, str):
        return cleaned(content), ""
    text, thought = "", ""
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "text", "text": str(said)}:
                text += said
            case {"type": "thinking", "thinking": thinking}:
                thought += "".join(_parts(thinking))
            case _:
                pass
    return cleaned(text), thought


def _usage(told: WireUsage) -> Usage:
    """What was read from a cache is part of `prompt_tokens`, and no part of our `input_tokens`.

    Some leave reasoning out of `completion_tokens` (xAI, Gemini), never out of the total.
    """
    details = told.prompt_tokens_details
    prompt, written = told.prompt_tokens or 0, (details and details.cache_write_tokens) or 0
    read = (details and details.cached_tokens) or told.prompt_cache_hit_tokens or told.cached_tokens or 0
    output = max(told.completion_tokens or 0, (told.total_tokens or 0) - prompt)
    return Usage(
        input_tokens=tokens(prompt - read - written),
        output_tokens=tokens(output),
        cache_read_tokens=tokens(read),
        cache_creation_tokens=tokens(written),
    )
