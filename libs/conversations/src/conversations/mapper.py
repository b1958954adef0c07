"""Events to what is stored and back: the topic is the event's tag, the state its JSON.

A stored event is never rewritten. When a tag gets a new version, an upcast turns the old one's JSON into the
new one's while it is read.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from contracts import events, wire
from conversations.errors import UnreadableEvent

JSON = dict[str, Any]
Upcast = Callable[[JSON], JSON]

UPCASTS: Mapping[str, Upcast] = {}
"""By the tag that they read: each gives the JSON of the next version, its new `type` included."""


def topic_of(event: events.Event) -> str:
    """The stored tag, for example `message_saved.v1`."""
    return events.tag_of(event)


def state_of(event: events.Event) -> bytes:
    """The stored JSON."""
    return wire.encode(event)


def event_of(topic: str, state: bytes, upcasts: Mapping[str, Upcast] = UPCASTS) -> events.Event:
    """The event that was stored, brought to its newest version. Raises UnreadableEvent."""
    try:
        if topic in upcasts:
            state = wire.encode(_upcast(msgspec.json.decode(state, type=JSON), upcasts))
        return wire.decode_event(state)
    except msgspec.DecodeError as error:
        raise UnreadableEvent(topic, str(error)) from error


def events_of(rows: Iterable[tuple[str, bytes]]) -> list[events.Event]:
    """The events of (topic, state) rows. Raises UnreadableEvent."""
    return [event_of(topic, state) for topic, state in rows]


def event_name(topic: str) -> str:
    """The class name that subjects carry: `MessageSaved` for `message_saved.v1`, for unknown tags too."""
    return "".join(part.capitalize() for part in topic.partition(".")[0].split("_"))


def _upcast(state: JSON, upcasts: Mapping[str, Upcast]) -> JSON:
    while state["type"] in upcasts:
        state = upcasts[state["type"]](state)
    return state
