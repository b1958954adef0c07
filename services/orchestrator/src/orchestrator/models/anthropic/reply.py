"""A reply while it is put together from a stream, and when it is whole."""

from typing import Any

from contracts.text import cleaned, cleaned_json
from contracts.values import Usage
from orchestrator.models.anthropic.failures import from_error_event
from orchestrator.models.anthropic.wire import WireEvent, WireUsage, event_of
from orchestrator.models.port import Reply, tokens
from orchestrator.models.sse import EventReader, StreamBroken
from orchestrator.models.tool_input import read_input

_NO_CONTENT = frozenset({"ping"})


class AnthropicReply:
    """Takes the bytes of one stream. Raises StreamBroken, and ModelFailure for an error sent in it."""

    def __init__(self) -> None:
        self.finished = False
        self.usage = Usage()
        self._reader = EventReader()
        self._blocks: dict[int, _Block] = {}
        self._stop_reason: str | None = None
        self._message_id = ""
        self._model = ""

    @property
    def begun(self) -> bool:
        """Whether the provider has taken the call."""
        return bool(self._message_id)

    def feed(self, chunk: bytes) -> tuple[str, bool]:
        """The text that `chunk` adds, and whether it held anything but pings."""
        said: list[str] = []
        alive = False
        for data in self._reader.feed(chunk):
            if self.finished:
                break
            event = event_of(data)
            alive = alive or event.type not in _NO_CONTENT
            text = self._take(event)
            if text:
                said.append(text)
        return "".join(said), alive

    def whole(self) -> Reply:
        """The reply. Raises StreamBroken where it did not come to its end, however calmly it closed."""
        if not self.finished or self._stop_reason is None:
            raise StreamBroken("the stream ended before the reply did")
        blocks: list[dict[str, Any]] = []
        bad: dict[int, str] = {}
        for _, block in sorted(self._blocks.items()):
            content, problem = block.whole()
            if problem:
                bad[len(blocks)] = problem
            if content is not None:
                blocks.append(content)
        return Reply(
            blocks=tuple(blocks),
            stop_reason=self._stop_reason,
            raw_stop_reason=self._stop_reason,
            message_id=self._message_id,
            model=self._model,
            bad_inputs=bad,
        )

    def _take(self, event: WireEvent) -> str:
        match event.type:
            case "content_block_delta":
                return self._take_piece(event)
            case "content_block_start":
                block = _Block(event.content_block or {})
                self._blocks[event.index] = block
                return block.text
            case "message_start" if event.message is not None:
                self._message_id, self._model = event.message.id, event.message.model
                self.usage = _updated(self.usage, event.message.usage)
            case "message_delta":
                if event.delta is not None and event.delta.stop_reason is not None:
                    self._stop_reason = event.delta.stop_reason
                self.usage = _updated(self.usage, event.usage)
            case "message_stop":
                self.finished = True
            case "error":
                raise from_error_event(event.error)
        return ""

    def _take_piece(self, event: WireEvent) -> str:
        block, delta = self._blocks.get(event.index), event.delta
        if block is None or delta is None:
            raise StreamBroken("a piece of a block that was not begun")
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
                block.signature += delta.signature
        return ""


class _Block:
    """A content block under construction: what it began with, and what was added since."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._start = start
        self.type = start.get("type")
        self.text = cleaned(str(start.get("text") or "")) if self.type == "text" else ""
        self.parts = [self.text] if self.text else []
        self.signature = str(start.get("signature") or "")

    def whole(self) -> tuple[dict[str, Any] | None, str]:
        """The block, or None where it is empty; and what is wrong with a tool_use block's input."""
        added = "".join(self.parts)
        match self.type:
            case "text":
                return ({"type": "text", "text": added} if added else None), ""
            case "thinking":
                thinking = cleaned(str(self._start.get("thinking") or "") + added)
                return {"type": "thinking", "thinking": thinking, "signature": self.signature}, ""
            case "tool_use":
                return self._tool_use(added)
            case None:
                return None, ""
            case _:
                return cleaned_json(self._start), ""

    def _tool_use(self, added: str) -> tuple[dict[str, Any], str]:
        given, problem = read_input(added, self._start.get("input"))
        return {
            "type": "tool_use",
            "id": str(self._start.get("id") or ""),
            "name": str(self._start.get("name") or ""),
            "input": given,
        }, problem


def _updated(usage: Usage, news: WireUsage | None) -> Usage:
    """Counts are cumulative: what is told last stands."""
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
