"""Updates as server-sent events, in both forms (interface specification, section 5). Pure.

Each form is one function from an update to its event, or to None where the form has none.
"""

from collections.abc import Iterable
from typing import Literal, get_args

from agentchat.contracts import errors, http, wire
from agentchat.contracts.cursors import Cursor
from agentchat.contracts.updates import (
    Broken,
    Finished,
    NextRound,
    RetrievedSources,
    Started,
    Text,
    ToolEnded,
    ToolStarted,
    Update,
)

Form = Literal["form1", "form2"]
FORMS: tuple[Form, ...] = get_args(Form)

PING = b": ping\n\n"
HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class Encoder:
    """The events of one stream."""

    def __init__(self, form: Form, conversation_id: str, trace_id: str) -> None:
        self._event = self._form1 if form == "form1" else self._form2
        self._conversation_id = conversation_id
        self._trace_id = trace_id

    def encode(self, updates: Iterable[Update]) -> bytes:
        """The bytes of these updates; b"" where the form has none for any of them."""
        return b"".join(self._data(update) for update in updates)

    def encode_marked(self, update: Update, cursor: Cursor | None) -> bytes:
        """The bytes of one update, with the line `id:` that names the place after it; b"" likewise."""
        data = self._data(update)
        if not data or cursor is None:
            return data
        return b"id: " + cursor.text(self._trace_id).encode() + b"\n" + data

    def _data(self, update: Update) -> bytes:
        event = self._event(update)
        return b"" if event is None else wire.encode_sse(event)

    def _form1(self, update: Update) -> http.StreamEvent | None:
        match update:
            case Text():
                return http.DeltaEvent(content=update.text)
            case Started():
                return http.MetaEvent(conversation_id=self._conversation_id, trace_id=self._trace_id)
            case RetrievedSources():
                return http.SourcesEvent(sources=update.sources)
            case Finished():
                return http.DoneEvent(conversation_id=self._conversation_id, trace_id=self._trace_id)
            case Broken():
                return _error(update)
            case ToolStarted() | ToolEnded() | NextRound():
                return None

    def _form2(self, update: Update) -> http.StreamEvent | None:
        match update:
            case Text():
                return http.DeltaEvent(content=update.text)
            case Started():
                return http.StartEvent(conversation_id=self._conversation_id)
            case ToolStarted():
                return http.ToolCallEvent(name=update.name, input=update.input)
            case Finished():
                return http.MessageDoneEvent(message=update.message, tool_calls=update.tool_calls or None)
            case Broken():
                return _error(update)
            case RetrievedSources() | ToolEnded() | NextRound():
                return None


def _error(broken: Broken) -> http.ErrorEvent:
    """A code that the table does not hold must not reach a caller."""
    row = errors.error(broken.code)
    return http.ErrorEvent(
        code=row.code, message=broken.message or row.title, approvals=broken.approvals or None
    )
