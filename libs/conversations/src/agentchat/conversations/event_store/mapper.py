"""Map events to rows and back: the topic is the event's tag, the state its JSON.

A stored event is never rewritten. When a tag gets a new version, an upcast turns the old JSON into the new
one when it is read.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from eventsourcing.persistence import Mapper, StoredEvent, Transcoder

from agentchat.contracts import events, wire
from agentchat.conversations.errors import UnknownEvent, UnreadableEvent

JSON = dict[str, Any]
Upcast = Callable[[JSON], JSON]


def _upcast_elicitation(state: JSON) -> JSON:
    """Give a tool's question its own tag; it had that of an approval, whose `asked` is null."""
    if state.get("asked") is None:
        return state
    return state | {"type": events.get_tag(events.ElicitationRequested)}


UPCASTS: Mapping[str, Upcast] = {events.get_tag(events.ApprovalRequested): _upcast_elicitation}
"""Upcasts by the tag that they read.

Each returns the JSON of the next version, including its new `type`. An upcast that leaves `type` unchanged
leaves the event unchanged.
"""

_TAGS = frozenset(events.get_tag(each) for each in events.EVENTS)

UNREADABLE = "The conversation holds something that this version of the service cannot read."


class _Typed(msgspec.Struct, frozen=True):
    type: str


_type_decoder = msgspec.json.Decoder(_Typed)


class _Named(msgspec.Struct, frozen=True):
    trace_id: str | None = None
    at: datetime | None = None


_named_decoder = msgspec.json.Decoder(_Named)


class _WithAccount(msgspec.Struct, frozen=True):
    account_id: str


_NAMING_ACCOUNT = frozenset(
    {events.get_tag(events.ConversationStarted), events.get_tag(events.ConversationErased)}
)

_ENDS = frozenset({"RunCompleted", "RunFailed", "RunCancelled"})


class _End(msgspec.Struct):
    """The fields that every version of a run's end has."""

    trace_id: str
    at: str


def get_topic(event: events.Event) -> str:
    """Return the stored tag, for example `message_saved.v1`."""
    return events.get_tag(event)


def encode_state(event: events.Event) -> bytes:
    """Return the stored JSON."""
    return wire.encode(event)


def read_topic(state: bytes) -> str:
    """Return the tag that stored JSON names. Raises msgspec.DecodeError."""
    return _type_decoder.decode(state).type


def decode_event(state: bytes) -> events.Event:
    """Decode an event from only its stored JSON. Raises UnreadableEvent."""
    try:
        topic = read_topic(state)
    except msgspec.DecodeError as error:
        raise UnreadableEvent("?", str(error)) from error
    return decode_stored(topic, state)


class ConversationEvent(NamedTuple):
    """A domain event as the eventsourcing library has it.

    An event of `contracts.events` with its version.
    """

    originator_id: str
    originator_version: int
    event: events.Event


class EventTranscoder(Transcoder):
    """Encodes events as their JSON; the tag in it names the class."""

    def encode(self, obj: events.Event) -> bytes:
        """Encode an event."""
        return wire.encode(obj)

    def decode(self, data: bytes) -> events.Event:
        """Decode an event. Raises msgspec.DecodeError."""
        return wire.decode_event(data)


class ConversationMapper(Mapper[str]):
    """Maps events to rows and back for the library.

    Events of earlier tags are upcast when they are read.
    """

    def to_stored_event(self, domain_event: Any) -> StoredEvent:
        """Return an event as the library's row."""
        owner, version, event = domain_event
        return StoredEvent(owner, version, get_topic(event), encode_state(event))

    def to_domain_event(self, stored_event: StoredEvent) -> ConversationEvent:
        """Return the event of the library's row.

        Raises UnreadableEvent, which is also the library's MapperDeserialisationError.
        """
        conversation_id, version = str(stored_event.originator_id), stored_event.originator_version
        try:
            event = decode_stored(stored_event.topic, stored_event.state)
        except UnreadableEvent as error:
            reason = f"{error.reason} (version {version} of {conversation_id})"
            raise type(error)(error.topic, reason) from error
        return ConversationEvent(conversation_id, version, event)


class EventRow(NamedTuple):
    """An event as it is stored. `trace_id` and `at` are None if its JSON does not name them."""

    topic: str
    state: bytes
    trace_id: str | None
    at: str | None


def encode_rows(new: Iterable[events.Event]) -> list[EventRow]:
    """Encode events as rows."""
    return [EventRow(get_topic(event), encode_state(event), event.trace_id, event.at) for event in new]


def build_row(topic: str, state: bytes) -> EventRow:
    """Return the row of stored JSON, whether or not this release can decode it."""
    try:
        named = _named_decoder.decode(state)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return EventRow(topic, state, None, None)
    return EventRow(topic, state, named.trace_id, None if named.at is None else named.at.isoformat())


def find_account(rows: Sequence[EventRow]) -> str | None:
    """Return the account that a conversation's start or erasure names."""
    first = rows[0]
    if first.topic not in _NAMING_ACCOUNT:
        return None
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(first.state, type=_WithAccount).account_id
    return None


def encode_pairs(new: Iterable[events.Event]) -> list[tuple[str, bytes]]:
    """Return the (topic, state) pairs of events."""
    return [(get_topic(event), encode_state(event)) for event in new]


def decode_stored(topic: str, state: bytes, upcasts: Mapping[str, Upcast] = UPCASTS) -> events.Event:
    """Decode a stored event and bring it to its newest version.

    Raises UnknownEvent, UnreadableEvent.
    """
    if topic not in _TAGS and topic not in upcasts:
        raise UnknownEvent(topic, "this release does not know it")
    try:
        if topic in upcasts:
            state = wire.encode(_upcast(msgspec.json.decode(state, type=JSON), upcasts))
        return wire.decode_event(state)
    except msgspec.DecodeError as error:
        raise UnreadableEvent(topic, str(error)) from error


def decode_readable(rows: Iterable[tuple[str, bytes]]) -> tuple[list[events.Event], bool]:
    """Decode the (topic, state) rows that can be decoded, and return True if those are all.

    The end of a run that cannot be decoded is returned as a failure: the run is over, however it ended.
    """
    found: list[events.Event] = []
    whole = True
    for topic, state in rows:
        try:
            found.append(decode_stored(topic, state))
        except UnreadableEvent:
            whole = False
            found += _replace_unreadable_end(topic, state)
    return found, whole


def _replace_unreadable_end(topic: str, state: bytes) -> list[events.Event]:
    if get_event_name(topic) not in _ENDS:
        return []
    try:
        end = msgspec.json.decode(state, type=_End)
    except msgspec.DecodeError:
        return []
    return [events.RunFailed(trace_id=end.trace_id, at=end.at, code="internal_error", message=UNREADABLE)]


def get_event_name(topic: str) -> str:
    """Return the class name that subjects carry.

    `MessageSaved` for `message_saved.v1`, also for unknown tags.
    """
    return "".join(part.capitalize() for part in topic.partition(".")[0].split("_"))


def _upcast(state: JSON, upcasts: Mapping[str, Upcast]) -> JSON:
    while (upcast := upcasts.get(state["type"])) is not None:
        before, state = state["type"], upcast(state)
        if state["type"] == before:
            break
    return state
