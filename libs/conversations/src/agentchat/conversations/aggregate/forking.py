"""Build the events of a fork: a new conversation with a copy of another one's past. Pure.

Events are copied, so that either conversation can be erased without the other. Copies have ids derived from
those of their originals, and name the trace that they are copies of. Called by
`orchestrator.rpc.fork_command`.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from agentchat.contracts import events, ids
from agentchat.contracts.messages import ForkAnswered, ForkConversation, ForkOutcome
from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.conversation import fold

MAX_EVENTS = 5_000
MAX_BYTES = 4 * 1024 * 1024
"""The most that one append may copy.

It takes 0.25 s, for which other requests of this worker wait.
"""

_LEFT_OUT = (
    events.ConversationStarted
    | events.ConversationForked
    | events.ReplyLost
    | events.MessageReceived
    | events.FeedbackGiven
    | events.FeedbackWithdrawn
)
"""Feedback stays with the original, and is counted there."""


def find_answer(stored: Sequence[events.Event], command: ForkConversation) -> ForkAnswered | None:
    """Return the answer that the command got when it was carried out; None if it was not.

    `stored` are the events of the fork.
    """
    if not stored:
        return None
    found = fold(command.conversation_id, stored)
    if not found.is_open_to(command):
        return ForkAnswered(outcome="not_found")
    copies = sum(event.inherited_from is not msgspec.UNSET for event in stored)
    return ForkAnswered(outcome="forked", version=2 + copies)


def fork(
    source: Sequence[events.Event],
    sizes: Sequence[int],
    command: ForkConversation,
    now: str,
    *,
    is_whole: bool = True,
) -> tuple[events.Event, ...] | ForkAnswered:
    """Return the events of the fork, the first one included; or why there is none.

    `sizes` are those of the source's events in bytes. If not `is_whole`, the source has more events than
    these, which are more than may be copied.
    """
    found = fold(command.source_id, source)
    if not found.is_open_to(command):
        return ForkAnswered(outcome="not_found")
    place = _find_place(source, command)
    if not is_whole and (not isinstance(place, int) or place == len(source) != command.at):
        return ForkAnswered(outcome="too_large")
    if not isinstance(place, int):
        return ForkAnswered(outcome=place, version=found.version)
    kept = source[: count_settled(source[:place])]
    if not any(isinstance(event, events.MessageSaved) for event in kept):
        return ForkAnswered(outcome="nothing_said")
    if len(kept) > MAX_EVENTS or sum(sizes[: len(kept)]) > MAX_BYTES:
        return ForkAnswered(outcome="too_large")
    first = source[0]
    assert isinstance(first, events.ConversationStarted), "the first event of every conversation"
    began = replace(first, trace_id=command.trace_id, at=now)  # of the same user, with the same labels
    copies = _copy_events(kept, command.conversation_id)
    forked = events.ConversationForked(
        trace_id=command.trace_id,
        at=now,
        source_id=command.source_id,
        source_version=len(kept),
    )
    return (began, forked, *copies)


def _copy_events(kept: Sequence[events.Event], conversation_id: str) -> tuple[events.Event, ...]:
    copied = [event for event in kept if not isinstance(event, _LEFT_OUT)]
    return tuple(_copy(_shift_version(event, kept), conversation_id) for event in copied)


def _find_place(source: Sequence[events.Event], command: ForkConversation) -> int | ForkOutcome:
    """Return how many of the source's events to consider.

    The events of an unfinished run are dropped later.
    """
    at = command.at
    if at is None:
        return len(source) if count_settled(source) == len(source) else "busy"
    if isinstance(at, int):
        return at if at <= len(source) else "unknown_version"
    if not ids.is_uuid(at):
        time = datetime.fromisoformat(at)
        later = (place for place, event in enumerate(source) if datetime.fromisoformat(event.at) > time)
        return next(later, len(source))
    for place, event in enumerate(source):
        if isinstance(event, events.MessageSaved) and event.message_id == at:
            return place if event.role == "user" else _find_end(source, place, event.trace_id)
    return "unknown_message"


def _find_end(source: Sequence[events.Event], place: int, trace_id: str) -> int:
    """Return the index after the end of the run whose reply is at `place`.

    They are stored together.
    """
    for count, event in enumerate(source[place:], start=place + 1):
        if isinstance(event, events.RunEnd) and event.trace_id == trace_id:
            return count
    return len(source)


def _shift_version(event: events.Event, kept: Sequence[events.Event]) -> events.Event:
    """Replace a version of the source by that of the same event in the fork."""
    if not isinstance(event, events.ContextCompacted):
        return event
    before = kept[: event.through_version]
    return replace(event, through_version=2 + sum(not isinstance(each, _LEFT_OUT) for each in before))


def _copy(event: events.Event, conversation_id: str) -> events.Event:
    """Copy an event with ids of the fork and without usage: its tokens were counted once."""
    trace_id = _derive_trace(conversation_id, event.trace_id)
    copy = replace(event, trace_id=trace_id, inherited_from=event.trace_id)
    match copy:
        case events.MessageSaved(role="assistant"):
            return replace(copy, message_id=ids.derive_reply_id(trace_id))
        case events.MessageSaved():
            return replace(copy, message_id=ids.derive_uuid(_hash(conversation_id, copy.message_id)))
        case events.DecisionRequested() | events.ApprovalDecided():
            return replace(copy, approval_id=ids.derive_uuid(_hash(conversation_id, copy.approval_id)))
        case events.RunStarted():
            return replace(copy, shown_sha256=None)
        case (
            events.ModelReplied()
            | events.ContextCompacted()
            | events.RunCompleted()
            | events.RunFailed()
            | events.RunCancelled()
        ):
            return replace(copy, usage=Usage())
        case _:
            return copy


def derive_reply_id(conversation_id: str, trace_id: str) -> str:
    """Return the id that the reply of a source's run has in the fork `conversation_id`."""
    return ids.derive_reply_id(_derive_trace(conversation_id, trace_id))


def _derive_trace(conversation_id: str, trace_id: str) -> str:
    return _hash(conversation_id, trace_id)[:32]


def _hash(conversation_id: str, original: str) -> str:
    return hashlib.sha256(f"fork {conversation_id} {original}".encode()).hexdigest()


def count_settled(stored: Sequence[events.Event]) -> int:
    """Count the events of a conversation, from its first on, after which no run is active."""
    active_trace, settled_count = None, 0
    for count, event in enumerate(stored, start=1):
        if isinstance(event, events.MessageSaved) and event.role == "user":
            active_trace = event.trace_id
        elif isinstance(event, events.RunEnd) and event.trace_id == active_trace:
            active_trace = None
        if active_trace is None:
            settled_count = count
    return settled_count
