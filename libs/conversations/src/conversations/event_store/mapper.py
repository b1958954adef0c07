"""Events to what is stored and back: the topic is the event's tag, the state its JSON.

A stored event is never rewritten. When a tag gets a new version, an upcast turns the old one's JSON into the
new one's while it is read.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from contracts import events, wire
from conversations.errors import UnknownEvent, UnreadableEvent

JSON = dict[str, Any]
Upcast = Callable[[JSON], JSON]


def _elicitation(state: JSON) -> JSON:
    """What a tool asks had the tag of an approval, with `asked`, which is null in an approval itself."""
    if state.get("asked") is None:
        return state
    return state | {"type": events.tag_of(events.ElicitationRequested)}


UPCASTS: Mapping[str, Upcast] = {events.tag_of(events.ApprovalRequested): _elicitation}
"""By the tag that they read: each gives the JSON of the next version, its new `type` included.

One that leaves `type` as it is leaves the event as it is.
"""

_TAGS = frozenset(events.tag_of(each) for each in events.EVENTS)

UNREADABLE = "The conversation holds something that this version of the service cannot read."


class _Typed(msgspec.Struct, frozen=True):
    type: str


_type_decoder = msgspec.json.Decoder(_Typed)

_ENDS = frozenset({"RunCompleted", "RunFailed", "RunCancelled"})


class _End(msgspec.Struct):
    """What every version of a run's end has."""

    trace_id: str
    at: str


def topic_of(event: events.Event) -> str:
    """The stored tag, for example `message_saved.v1`."""
    return events.tag_of(event)


def state_of(event: events.Event) -> bytes:
    """The stored JSON."""
    return wire.encode(event)


def topic_in(state: bytes) -> str:
    """The tag that stored JSON names. Raises msgspec.DecodeError."""
    return _type_decoder.decode(state).type


def event_in(state: bytes) -> events.Event:
    """The event of stored JSON alone. Raises UnreadableEvent."""
    try:
        topic = topic_in(state)
    except msgspec.DecodeError as error:
        raise UnreadableEvent("?", str(error)) from error
    return event_of(topic, state)


def stored(new: Iterable[events.Event]) -> list[tuple[str, bytes]]:
    """The (topic, state) pairs of events."""
    return [(topic_of(event), state_of(event)) for event in new]


def event_of(topic: str, state: bytes, upcasts: Mapping[str, Upcast] = UPCASTS) -> events.Event:
    """The event that was stored, brought to its newest version. Raises UnknownEvent, UnreadableEvent."""
    if topic not in _TAGS and topic not in upcasts:
        raise UnknownEvent(topic, "this release does not know it")
    try:
        if topic in upcasts:
            state = wire.encode(_upcast(msgspec.json.decode(state, type=JSON), upcasts))
        return wire.decode_event(state)
    except msgspec.DecodeError as error:
        raise UnreadableEvent(topic, str(error)) from error


def events_of(rows: Iterable[tuple[str, bytes]]) -> list[events.Event]:
    """The events of (topic, state) rows. Raises UnreadableEvent."""
    return [event_of(topic, state) for topic, state in rows]


def readable_of(rows: Iterable[tuple[str, bytes]]) -> tuple[list[events.Event], bool]:
    """The events of (topic, state) rows that can be decoded, and whether those are all.

    The end of a run that cannot be decoded is given as a failure: the run is over, however it ended.
    """
    found: list[events.Event] = []
    whole = True
    for topic, state in rows:
        try:
            found.append(event_of(topic, state))
        except UnreadableEvent:
            whole = False
            found += _unreadable_end(topic, state)
    return found, whole


def _unreadable_end(topic: str, state: bytes) -> list[events.Event]:
    if event_name(topic) not in _ENDS:
        return []
    try:
        end = msgspec.json.decode(state, type=_End)
    except msgspec.DecodeError:
        return []
    return [events.RunFailed(trace_id=end.trace_id, at=end.at, code="internal_error", message=UNREADABLE)]


def event_name(topic: str) -> str:
    """The class name that subjects carry: `MessageSaved` for `message_saved.v1`, for unknown tags too."""
    return "".join(part.capitalize() for part in topic.partition(".")[0].split("_"))


def _upcast(state: JSON, upcasts: Mapping[str, Upcast]) -> JSON:
    while (upcast := upcasts.get(state["type"])) is not None:
        before, state = state["type"], upcast(state)
        if state["type"] == before:
            break
    return state
