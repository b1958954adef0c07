"""Turn a stream's bytes into events, and collect the reply. No I/O."""

from collections.abc import Iterator
from typing import NoReturn

from agentchat.client import stream_events
from agentchat.client.errors import ChatError, InvalidResponse, StreamInterrupted
from agentchat.client.models import Approval, Message, Source, TokenCounts, ToolRun
from agentchat.client.stream_events import Event

_PREFIX = b"data: "
_ID = b"id: "


class LineReader:
    """Reads lines by the rule of the interface specification, section 5.

    Lines end with LF and count if they begin with `data: `. JSON ignores a carriage return at the end. `id`
    is the last id read; it precedes its event.
    """

    def __init__(self) -> None:
        self.id: str | None = None
        self._waiting: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the JSON of each line that `data` completes."""
        first, *others = data.split(b"\n")
        self._waiting.append(first)
        for line in others:
            yield from self.end()
            self._waiting.append(line)

    def end(self) -> Iterator[bytes]:
        """Yield the JSON of the line so far."""
        line = b"".join(self._waiting)
        self._waiting.clear()
        if line.startswith(_PREFIX):
            yield line.removeprefix(_PREFIX)
        elif line.startswith(_ID):
            self.id = line.removeprefix(_ID).decode("latin-1").strip()


class Transcript:
    """The reply of one stream so far. The final event sets `ended`.

    `sources` come with form 1 and `full`, `message` and `tool_calls` with the end of form 2 and `full`,
    `usage` with that of `full`. `last_event_id` is for
    `events`, to continue after the last event; streams of `stream` have none.
    """

    def __init__(self) -> None:
        self.trace_id: str | None = None
        self.conversation_id: str | None = None
        self.sources: tuple[Source, ...] = ()
        self.message: Message | None = None
        self.tool_calls: tuple[ToolRun, ...] = ()
        self.usage: TokenCounts | None = None
        self.ended = False
        self.last_event_id: str | None = None
        self._pieces: list[str] = []
        self._lines = LineReader()

    @property
    def text(self) -> str:
        """The reply so far; after the end, the saved reply."""
        return "".join(self._pieces)

    def _feed(self, data: bytes | None) -> Iterator[Event]:
        """Yield the events that `data` completes; None is the end of the stream.

        Raises ChatError, InvalidResponse, StreamInterrupted, each after the events before it.
        """
        for line in self._lines.end() if data is None else self._lines.feed(data):
            event = self._decode(line, last=data is None)
            if event is not None:
                yield event
            if self.ended:
                return
        if data is None:
            raise self._build_interruption("The stream ended before the reply was complete.")

    def _build_interruption(self, reason: str) -> StreamInterrupted:
        return StreamInterrupted(reason, self.trace_id, self.conversation_id)

    def _decode(self, line: bytes, *, last: bool) -> Event | None:
        try:
            event = stream_events.decode(line)
        except (ValueError, RecursionError) as error:
            if last:  # a line without its end: the cut may be in its middle
                return None
            raise InvalidResponse(
                f"The stream holds a line that is no event: {error}", self.trace_id
            ) from error
        self.last_event_id = self._lines.id  # of a complete event
        match event:
            case stream_events.Failure():
                self._fail(event.code, event.message, event.approvals)
            case stream_events.ApprovalRequired():
                self._fail("approval_required", event.message, event.approvals)
            case stream_events.ClientToolsRequired():
                self._fail("client_tools_required", event.message)
            case None:
                return None
        self._note(event)
        return event

    def _fail(self, code: str, message: str, approvals: tuple[Approval, ...] = ()) -> NoReturn:
        raise ChatError(code, message, self.trace_id, self.conversation_id, approvals)

    def _note(self, event: Event) -> None:
        match event:
            case stream_events.Delta():
                self._pieces.append(event.content)
            case stream_events.Meta():
                self.conversation_id = event.conversation_id
                self.trace_id = event.trace_id
            case stream_events.Start():
                self.conversation_id = event.conversation_id
                self.trace_id = event.trace_id or self.trace_id
            case stream_events.Sources():
                self.sources = event.sources
            case stream_events.MessageDone():
                self.message = event.message
                self.tool_calls = event.tool_calls
                self.sources = event.sources
                self.usage = event.usage
                self.ended = True
            case stream_events.Done():
                self.ended = True
            case stream_events.ToolCall() | stream_events.ClientToolCall():
                pass
            case stream_events.ToolProgress() | stream_events.ToolResult() | stream_events.Warned():
                pass
