"""Errors of this package, in addition to `runtime.postgres.DatabaseUnavailable`.

ConversationsError
├── VersionConflict
├── UnstorableEvent
├── UnreadableEvent
│   └── UnknownEvent
├── UnknownConversation
├── WaitingLineFull
└── WaiterLost
"""

from eventsourcing.persistence import MapperDeserialisationError


class ConversationsError(Exception):
    """Base of this package's errors."""


class VersionConflict(ConversationsError):  # noqa: N818 - the usual name
    """Another process appended to the conversation since `expected`; load it and decide again."""

    def __init__(self, conversation_id: str, expected: int) -> None:
        super().__init__(f"conversation {conversation_id} is past version {expected}")
        self.conversation_id = conversation_id
        self.expected = expected


class UnstorableEvent(ConversationsError):  # noqa: N818 - it is the event that is so
    """Postgres refuses the events of an append.

    Nothing was stored, and a retry would fail too.
    """

    def __init__(self, conversation_id: str, reason: str) -> None:
        super().__init__(f"conversation {conversation_id}: {reason}")
        self.conversation_id = conversation_id
        self.reason = reason


class UnreadableEvent(ConversationsError, MapperDeserialisationError):  # noqa: N818 - a state of the event
    """A stored event that this program cannot decode."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"{topic}: {reason}")
        self.topic = topic
        self.reason = reason


class UnknownEvent(UnreadableEvent):
    """An event whose tag this program does not know.

    A newer release stored it and can read it.
    """


class WaitingLineFull(ConversationsError):  # noqa: N818 - a state, not a mistake
    """The conversation or the account has as many waiting messages as it may have."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"no further message can wait for conversation {conversation_id}")


class WaiterLost(ConversationsError):  # noqa: N818 - a state, not a mistake
    """A request no longer waits here.

    Another delivery of it, at the same worker, has left the line.
    """

    def __init__(self, trace_id: str) -> None:
        super().__init__(f"{trace_id} has no place in line here")
        self.trace_id = trace_id


class UnknownConversation(ConversationsError):  # noqa: N818 - as above
    """The log has no such conversation, or it was erased."""
