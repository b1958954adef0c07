"""Build the bodies that endpoints are sent of events of the log. Pure."""

from datetime import datetime
from typing import Any

import msgspec

from agentchat.contracts import events, wire
from agentchat.contracts.ids import is_unlisted
from agentchat.contracts.values import Message
from agentchat.contracts.webhooks import (
    WEBHOOKS,
    ApprovalData,
    ConversationData,
    EventType,
    FeedbackData,
    Payload,
    RunData,
    RunFailure,
)

_TYPES: dict[type[events.Fact], EventType] = {
    events.ConversationStarted: "conversation.started",
    events.ApprovalRequested: "approval.requested",
    events.ElicitationRequested: "approval.requested",
    events.ApprovalDecided: "approval.decided",
    events.RunCompleted: "run.completed",
    events.RunFailed: "run.failed",
    events.RunCancelled: "run.cancelled",
    events.FeedbackGiven: "feedback.given",
    events.FeedbackWithdrawn: "feedback.withdrawn",
    events.ConversationErased: "conversation.deleted",
}

WANTED = frozenset(events.get_tag(kind) for kind in _TYPES)
"""The tags of the events that endpoints can be sent."""

OTHERS = frozenset(events.get_tag(kind) for kind in events.EVENTS) - WANTED
"""The tags of all others, whose content is not read here."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """An event that endpoints can be sent, and its place in the log."""

    type: EventType
    position: int
    conversation_id: str
    version: int
    event: events.Event


def build_notice(position: int, conversation_id: str, version: int, event: events.Event) -> Notice | None:
    """Return the notice of a stored event; None if it is none.

    A fork's copies happened elsewhere; of a conversation that no list shows only runs and approvals are sent.
    """
    found = _TYPES.get(type(event))
    if isinstance(event, events.ApprovalDecided) and event.decision == "expired":
        found = "approval.expired"
    if isinstance(event, events.ApprovalDecided) and event.is_client:
        return None
    if found is None or event.inherited_from is not msgspec.UNSET:
        return None
    if found.startswith("conversation.") and is_unlisted(conversation_id):
        return None
    return Notice(
        type=found, position=position, conversation_id=conversation_id, version=version, event=event
    )


def needs_reply(notice: Notice, payload: Payload) -> bool:
    """Return True if the body holds the saved message: the event right before this one."""
    return payload == "full" and notice.type == "run.completed"


def find_reply(conversation_id: str, trace_id: str, event: events.Event) -> Message | None:
    """Return the saved message, if that is the event before a run's end."""
    if not isinstance(event, events.MessageSaved) or event.role != "assistant" or event.trace_id != trace_id:
        return None
    return event.to_message(conversation_id)


def build_body(
    delivery_id: str,
    notice: Notice,
    payload: Payload,
    reply: Message | None = None,
    started: events.ConversationStarted | None = None,
) -> bytes:
    """Return the body of a notice as JSON. `reply`: the message, if `needs_reply`.

    `started`: the conversation's first event, which names its user; None once the conversation is erased.
    """
    data = _build_data(notice, payload == "full", reply)
    if started is not None:
        names = {"user_id": started.user_id, "external_id": started.external_id}
        data = msgspec.structs.replace(data, **names)
    return encode_body(delivery_id, notice.type, notice.event.at, data)


def encode_body(delivery_id: str, type_: EventType, at: str, data: Any) -> bytes:
    """Return a body as JSON; `at` is ISO 8601 with a zone."""
    created_at = int(datetime.fromisoformat(at).timestamp())
    kind: Any = WEBHOOKS[type_.partition(".")[0]]
    return wire.encode(kind(id=delivery_id, type=type_, created_at=created_at, timestamp=at, data=data))


def format_time(at: datetime) -> str:
    """Format a time in UTC as events carry it."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _build_data(
    notice: Notice, is_full: bool, reply: Message | None
) -> RunData | ApprovalData | FeedbackData | ConversationData:
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
        case events.FeedbackGiven() | events.FeedbackWithdrawn():
            if is_full:
                more = {"by": event.by, "on_behalf_of": event.on_behalf_of}
                if isinstance(event, events.FeedbackGiven):
                    more |= {"score": event.score, "label": event.label, "comment": event.comment}
            return FeedbackData(trace_id=event.trace_id, message_id=event.message_id, **place, **more)
        case _:
            return ConversationData(**place)
