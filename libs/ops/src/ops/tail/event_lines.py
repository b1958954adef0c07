"""One event as one line: when, whose, which conversation and run, what, and a little of its content. Pure."""

import json
from typing import Any

import msgspec
from rich.text import Text

from contracts import events
from contracts.feed import FeedEvent
from conversations.errors import UnreadableEvent
from conversations.event_store.mapper import event_of
from ops.output import clean, compact, counted, one_line

_SHORT = 8
_NAME_WIDTH = max(len(cls.__name__) for cls in events.EVENTS)
_CONTENT_WIDTH = 200
"""Characters of the content where the width is not known."""

_STYLES: dict[str, str] = {
    "ConversationStarted": "bright_blue",
    "RunStarted": "blue",
    "RunCompleted": "green",
    "RunFailed": "bold red",
    "RunCancelled": "yellow",
    "ReplyLost": "yellow",
    "ToolCalled": "magenta",
    "ToolReturned": "magenta",
    "SourcesRetrieved": "magenta",
    "ContextCompacted": "blue",
    "MessageSaved": "bold cyan",
    "ConversationErased": "red",
}


class _Unknown(msgspec.Struct):
    """What every event has, also one of a version that this program does not know."""

    type: str = ""
    trace_id: str = ""
    at: str = ""


def happened_at(event: FeedEvent) -> str:
    """When it happened, ISO 8601; "" where that is missing."""
    return _common(event).at


def as_line(event: FeedEvent, width: int | None) -> Text:
    """In colour and cut to `width`, with shortened ids; complete ids and no cut where it is None."""
    common = _common(event)
    line = Text(no_wrap=True, overflow="ellipsis", end="\n")
    line.append(_time(common.at, complete=width is None), "dim")
    for identifier in (event.account_id, event.conversation_id, common.trace_id):
        line.append("  ")
        line.append(clean(identifier) if width is None else clean(identifier)[-_SHORT:], "dim")
    line.append("  ")
    line.append(clean(event.name).ljust(_NAME_WIDTH), _STYLES.get(event.name, ""))
    line.append("  ")
    left = _CONTENT_WIDTH if width is None else max(width - line.cell_len, 0)
    line.append(one_line(content(event), left))
    if width is not None:
        line.truncate(width, overflow="ellipsis")
    else:
        line.rstrip()
    return line


def as_json(event: FeedEvent) -> str:
    """In ASCII, so that it cannot control a terminal."""
    try:
        data: Any = json.loads(event.data)
    except ValueError:
        data = event.data.decode("utf-8", "replace")
    return json.dumps(
        {
            "position": event.position,
            "account_id": event.account_id,
            "conversation_id": event.conversation_id,
            "name": event.name,
            "event": data,
        }
    )


def content(event: FeedEvent) -> str:
    """Its content in a few words; foreign text, not cleaned for a terminal."""
    try:
        return _words(event_of(_common(event).type, event.data))
    except UnreadableEvent:
        return event.data.decode("utf-8", "replace")


def _words(event: events.Event) -> str:
    match event:
        case events.MessageSaved():
            return f"{event.role}: {event.content}"
        case events.RunStarted():
            return f"{event.model}, {event.form}" + (f", attempt {event.attempt}" * (event.attempt > 1))
        case events.SourcesRetrieved():
            return (
                f"{counted(len(event.sources), 'source')}: {', '.join(each.title for each in event.sources)}"
            )
        case events.ContextCompacted():
            return f"up to {event.through_version:,}, {event.usage.total:,} tokens: {event.summary}"
        case events.Delta():
            return f"round {event.round}: {event.text}"
        case events.ModelReplied():
            return f"round {event.round}: {event.stop_reason}, {event.usage.total:,} tokens"
        case events.ReplyLost():
            return f"round {event.round}: {event.usage.total:,} tokens"
        case events.ToolCalled():
            return f"{event.name}({compact(event.input, _CONTENT_WIDTH)})"
        case events.ApprovalRequested():
            return f"{event.server}/{event.tool}, until {event.expires_at}"
        case events.ElicitationRequested():
            return f"{event.server}/{event.tool} asks: {event.asked.message}, until {event.expires_at}"
        case events.ApprovalDecided():
            return f"{event.decision} by {event.by.kind} {event.by.id}"
        case events.ToolReturned():
            return f"{'error' if event.is_error else 'ok'} in {event.ms:,} ms: {event.output}"
        case events.RunCompleted():
            return f"{counted(event.rounds, 'round')}, {event.usage.total:,} tokens"
        case events.RunFailed():
            return f"{event.code}: {event.message}"
        case events.RunCancelled():
            return f"{event.usage.total:,} tokens"
        case events.ConversationDescribed():
            return f"{event.title or ''} {compact(event.metadata, _CONTENT_WIDTH)}".strip()
        case events.FeedbackGiven():
            words = " ".join(filter(None, (event.label, event.comment)))
            return f"{event.score:+g} by {event.on_behalf_of or event.by.id}" + (f": {words}" * bool(words))
        case events.FeedbackWithdrawn():
            return f"by {event.on_behalf_of or event.by.id}"
        case events.ConversationErased():
            return counted(len(event.spent), "run")
        case events.ConversationForked():
            return f"of {event.source_id} at {event.source_version:,}"
        case _:  # its name says it
            return ""


def _common(event: FeedEvent) -> _Unknown:
    try:
        return msgspec.json.decode(event.data, type=_Unknown)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Unknown()


def _time(at: str, *, complete: bool) -> str:
    """To the millisecond, and on a terminal without the day."""
    day, _, time = clean(at).partition("T")
    short = time.removesuffix("Z")[:12].ljust(12)
    return f"{day}T{short}Z" if complete else short
