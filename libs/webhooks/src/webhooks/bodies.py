"""What an endpoint is sent of a notice, as bytes that are the same at each attempt. Pure."""

from datetime import datetime
from typing import Any

from contracts import events, wire
from contracts.values import Message
from contracts.webhooks import (
    WEBHOOKS,
    ApprovalData,
    ConversationData,
    EventType,
    Payload,
    RunData,
    RunFailure,
)
from webhooks.notices import Notice

_NO_ID = b'{"id":""'


def needs_reply(notice: Notice, payload: Payload) -> bool:
    """Whether the body holds the saved message, which stands right before the event."""
    return payload == "full" and notice.type == "run.completed"


def reply_of(conversation_id: str, trace_id: str, event: events.Event) -> Message | None:
    """The saved message, if that is what the event before a run's end is."""
    if not isinstance(event, events.MessageSaved) or event.role != "assistant" or event.trace_id != trace_id:
        return None
    return event.message(conversation_id)


def rest_of(notice: Notice, payload: Payload, reply: Message | None = None) -> bytes:
    """The body of a notice, as `with_id` completes it. `reply`: what `needs_reply` asks for."""
    data = _data_of(notice, payload == "full", reply)
    return whole_body("", notice.type, notice.event.at, data).removeprefix(_NO_ID)


def with_id(delivery_id: str, rest: bytes) -> bytes:
    """A body with its id, which is all of it that differs among endpoints."""
    return b'{"id":"%b"%b' % (delivery_id.encode(), rest)


def whole_body(delivery_id: str, type_: EventType, at: str, data: Any) -> bytes:
    """A body as JSON; `at` is ISO 8601 with a zone."""
    created_at = int(datetime.fromisoformat(at).timestamp())
    kind: Any = WEBHOOKS[type_.partition(".")[0]]
    return wire.encode(kind(id=delivery_id, type=type_, created_at=created_at, timestamp=at, data=data))


def text_of(at: datetime) -> str:
    """A time in UTC as events carry it."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _data_of(
    notice: Notice, is_full: bool, reply: Message | None
) -> RunData | ApprovalData | ConversationData:
    event = notice.event
    place: dict[str, Any] = {
        "position": notice.position,
        "conversation_id": notice.conversation_id,
        "version": notice.version,
    }
    more: dict[str, Any] = {}
    match event:
        case events.RunCompleted() | events.RunFailed() | events.RunCancelled():
            if is_full:
                more = {"usage": event.usage, "message": reply}
                if isinstance(event, events.RunFailed):
                    more["error"] = RunFailure(code=event.code, message=event.message)
            return RunData(trace_id=event.trace_id, **place, **more)
        case events.ApprovalRequested() | events.ElicitationRequested():
            if is_full:
                names = ("agent_id", "server", "tool", "expires_at")
                more = {name: getattr(event, name) for name in names}
                if isinstance(event, events.ElicitationRequested):
                    more["elicitation"] = event.asked.elicitation
            return ApprovalData(trace_id=event.trace_id, approval_id=event.approval_id, **place, **more)
        case events.ApprovalDecided():
            if is_full:
                names = ("decision", "by", "on_behalf_of", "reason")
                more = {name: getattr(event, name) for name in names}
            return ApprovalData(trace_id=event.trace_id, approval_id=event.approval_id, **place, **more)
        case _:
            return ConversationData(**place)
