"""Encode updates as server-sent events in three forms. Pure.

Forms 1 and 2 are those of the interface specification, section 5; `full` has everything. Texts and calls of
the client's tools are the same in all forms. Each form has one function from another update to its event, or
None.
"""

from collections.abc import Iterable
from typing import Literal, get_args

from msgspec.structs import replace

from agentchat.contracts import errors, http, ids, wire
from agentchat.contracts.run_results import count_tokens
from agentchat.contracts.stream_cursors import Cursor
from agentchat.contracts.updates import (
    Broken,
    Finished,
    NextRound,
    ReasoningUpdate,
    RetrievedSources,
    Started,
    TextUpdate,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    Update,
    WarningUpdate,
)

Form = Literal["form1", "form2", "full"]
FORMS: tuple[Form, ...] = get_args(Form)

PING = b": ping\n\n"
HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class Encoder:
    """Encodes the events of one stream."""

    def __init__(self, form: Form, conversation_id: str, trace_id: str) -> None:
        self._event = {"form1": self._to_form1, "form2": self._to_form2, "full": self._to_full}[form]
        self._conversation_id = conversation_id
        self._trace_id = trace_id

    def encode(self, updates: Iterable[Update]) -> bytes:
        """Return the bytes of these updates; b"" if the form has no event for any of them."""
        return b"".join([self._encode_update(update) for update in updates])

    def encode_marked(self, update: Update, cursor: Cursor | None) -> bytes:
        """Return the bytes of one update with an `id:` line that names the place after it.

        b"" if the form has no event for it.
        """
        data = self._encode_update(update)
        if not data or cursor is None:
            return data
        return b"id: " + cursor.format(self._trace_id).encode() + b"\n" + data

    def _encode_update(self, update: Update) -> bytes:
        match update:
            case TextUpdate():
                return wire.encode_sse(http.DeltaEvent(content=update.text))
            case ToolStarted(is_client=True):
                event: http.SseEvent | None = http.ClientToolCallEvent(
                    name=update.name, input=update.input, id=update.call_id
                )
            case _:
                event = self._event(update)
        return b"" if event is None else wire.encode_sse(event)

    def _to_form1(self, update: Update) -> http.SseEvent | None:
        match update:
            case Started():
                return http.MetaEvent(conversation_id=self._conversation_id, trace_id=self._trace_id)
            case RetrievedSources():
                return http.SourcesEvent(sources=update.sources)
            case Finished():
                return http.DoneEvent(conversation_id=self._conversation_id, trace_id=self._trace_id)
            case Broken():
                return _to_error_event(update)
            case _:
                return None

    def _to_form2(self, update: Update) -> http.SseEvent | None:
        match update:
            case Started():
                return http.StartEvent(conversation_id=self._conversation_id)
            case ToolStarted():
                return http.ToolCallEvent(name=update.name, input=update.input, id=update.call_id)
            case Finished():
                return http.MessageDoneEvent(
                    message=update.message, tool_calls=update.tool_calls or None, sources=update.sources
                )
            case Broken():
                return _to_error_event(update)
            case _:
                return None

    def _to_full(self, update: Update) -> http.SseEvent | None:
        match update:
            case ReasoningUpdate():
                return http.ReasoningEvent(content=update.text)
            case Started():
                return http.StartEvent(
                    conversation_id=self._conversation_id,
                    trace_id=self._trace_id,
                    message_id=ids.derive_reply_id(self._trace_id),
                )
            case RetrievedSources():
                return http.SourcesEvent(sources=update.sources)
            case WarningUpdate(warning):
                return http.WarningEvent(code=warning.code, subject=warning.subject, message=warning.message)
            case ToolStarted():
                return http.ToolCallEvent(name=update.name, input=update.input, id=update.call_id)
            case ToolProgressed():
                return http.ToolProgressEvent(
                    id=update.call_id, progress=update.progress, total=update.total, message=update.message
                )
            case ToolEnded():
                return http.ToolResultEvent(
                    id=update.call_id,
                    output=update.output or "null",
                    is_error=update.is_error,
                    files=tuple(file.to_link() for file in update.files),
                )
            case NextRound() | TextUpdate():
                return None
            case Finished():
                return http.MessageDoneEvent(
                    message=update.message,
                    tool_calls=update.tool_calls,
                    sources=update.sources or (),
                    usage=count_tokens(update.usage),
                    cut=update.cut,
                    model=update.model,
                )
            case Broken(code="approval_required"):
                return http.ApprovalRequiredEvent(
                    conversation_id=self._conversation_id,
                    message=update.message,
                    approvals=update.approvals,
                    usage=count_tokens(update.usage),
                )
            case Broken(code="client_tools_required"):
                return http.ClientToolsRequiredEvent(
                    conversation_id=self._conversation_id,
                    message=update.message,
                    client_tool_calls=update.client_calls,
                    usage=count_tokens(update.usage),
                )
            case Broken():
                return replace(_to_error_event(update), conversation_id=self._conversation_id)


def _to_error_event(broken: Broken) -> http.ErrorEvent:
    """Build the error event. A code that is not in the table must not reach a caller."""
    row = errors.get_error_code(broken.code)
    return http.ErrorEvent(
        code=row.code, message=broken.message or row.title, approvals=broken.approvals or None
    )
