"""Which events of the log endpoints are told of, and by which name. Pure."""

import msgspec

from contracts import events
from contracts.ids import is_unlisted
from contracts.webhooks import EventType

_KINDS: tuple[type[events.Fact], ...] = (
    events.ConversationStarted,
    events.ApprovalRequested,
    events.ElicitationRequested,
    events.ApprovalDecided,
    events.RunCompleted,
    events.RunFailed,
    events.RunCancelled,
    events.ConversationErased,
)

WANTED = frozenset(events.tag_of(kind) for kind in _KINDS)
"""The tags of the events that can be notices."""

OTHERS = frozenset(events.tag_of(kind) for kind in events.EVENTS) - WANTED
"""Those of all others, whose content nobody reads here."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """An event that endpoints can be told of, and where it stands."""

    type: EventType
    position: int
    conversation_id: str
    version: int
    event: events.Event


def notice_of(position: int, conversation_id: str, version: int, event: events.Event) -> Notice | None:
    """The notice of a stored event; None where it is none.

    A fork's copies happened elsewhere, and of a conversation that no list shows only the runs are told.
    """
    found = _type_of(event)
    if found is None or event.inherited_from is not msgspec.UNSET:
        return None
    if found.startswith("conversation.") and is_unlisted(conversation_id):
        return None
    return Notice(
        type=found, position=position, conversation_id=conversation_id, version=version, event=event
    )


def _type_of(event: events.Event) -> EventType | None:
    match event:
        case events.RunCompleted():
            return "run.completed"
        case events.RunFailed():
            return "run.failed"
        case events.RunCancelled():
            return "run.cancelled"
        case events.ApprovalRequested() | events.ElicitationRequested():
            return "approval.requested"
        case events.ApprovalDecided():
            return "approval.expired" if event.decision == "expired" else "approval.decided"
        case events.ConversationStarted():
            return "conversation.started"
        case events.ConversationErased():
            return "conversation.deleted"
        case _:
            return None
