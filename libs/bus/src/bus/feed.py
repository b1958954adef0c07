"""The EVENTS stream: every stored event once, in log order, and how far that has come."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from bus.errors import BusUnavailable, FeedConflict
from bus.jetstream import JetStream, StoredMessage
from contracts import subjects, wire
from contracts.feed import FeedEvent
from contracts.messages import EventTooLarge
from runtime import logs

EVERY_EVENT = "chat.events.>"
_MESSAGE_ID = "nats-msg-id"
_EXPECTED_LAST_MESSAGE = "Nats-Expected-Last-Msg-Id"
_CLEARINGS = 100
_HEADER_BYTES = 4096
"""More than the headers of an event take."""


class FeedEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Where EVENTS ends: the last sequence that it gave, and the log position of its newest message.

    The position is 0 where EVENTS holds no message: with sequence 0 it is new or wiped, with another its
    messages were all removed, by age or by hand. `edition` stands behind the position in message ids. It
    changes when EVENTS is emptied to be fed again, because the server goes on knowing the ids of what it
    removed for two minutes, and would take the same events for duplicates.
    """

    sequence: int
    position: int
    edition: str = ""

    def message_id(self, position: int) -> str:
        return f"{position}{self.edition}"


async def publish_event(
    jetstream: JetStream,
    subject: str,
    data: bytes,
    headers: dict[str, str],
    *,
    message_id: str,
    expected_last_sequence: int,
) -> int:
    """Append one event behind sequence `expected_last_sequence`; returns its own sequence.

    Raises FeedConflict when the stream does not end there (somebody else leads), BusUnavailable when it is
    unknown whether the event was stored; it may be repeated with the same `message_id`.
    """
    expectation = {"Nats-Expected-Last-Sequence": str(expected_last_sequence)}
    try:
        return await jetstream.publish(subject, data, message_id, {**headers, **expectation})
    except FeedConflict:
        # The server compares sequences before it looks for a duplicate: an earlier try may have been stored.
        stored = await jetstream.message(subjects.EVENTS, expected_last_sequence + 1)
        if stored is None or stored.headers.get(_MESSAGE_ID) != message_id:
            raise
        return stored.sequence


async def publish_events(jetstream: JetStream, events: Sequence[FeedEvent], end: FeedEnd) -> FeedEnd:
    """Append events behind `end`, all at once; returns the new end.

    Each states its place and the event before it. Both are needed: with the place alone, an event whose
    predecessor was refused could be taken, because the message that stands in the predecessor's place has
    made the sequence right. `EventTooLarge` stands for an event that no message can hold.

    Raises FeedConflict, BusUnavailable; then the end is to be looked up again.
    """
    results = await asyncio.gather(
        *(
            publish_event(
                jetstream,
                event.subject,
                _payload(event, jetstream.max_payload - _HEADER_BYTES),
                event.headers | _behind(events, place, end),
                message_id=end.message_id(event.position),
                expected_last_sequence=end.sequence + place,
            )
            for place, event in enumerate(events)
        ),
        return_exceptions=True,
    )
    for expected, result in enumerate(results, start=end.sequence + 1):
        if isinstance(result, BaseException):
            raise result
        if result != expected:
            raise FeedConflict(expected - 1)
    return FeedEnd(
        sequence=end.sequence + len(events),
        position=events[-1].position if events else end.position,
        edition=end.edition,
    )


async def feed_end(jetstream: JetStream) -> FeedEnd:
    """Where EVENTS ends now; it is made anew should it be gone."""
    try:
        return await _feed_end(jetstream)
    except BusUnavailable:
        await jetstream.provision()
        return await _feed_end(jetstream)


async def _feed_end(jetstream: JetStream) -> FeedEnd:
    # In this order: what is published in between is the newest message, and says its own sequence.
    sequence, _ = await jetstream.state(subjects.EVENTS)
    message = await jetstream.last_message(subjects.EVENTS, EVERY_EVENT)
    if message is None:
        return FeedEnd(sequence=sequence, position=0)
    _, mark, edition = message.headers.get(_MESSAGE_ID, "").partition(".")
    return FeedEnd(
        sequence=max(sequence, message.sequence), position=position_of(message), edition=mark + edition
    )


async def clear(jetstream: JetStream) -> FeedEnd:
    """Remove every message of EVENTS; consumers and the count of sequences stay. Returns the empty end."""
    for _ in range(_CLEARINGS):  # a leader may be publishing
        await jetstream.purge(subjects.EVENTS, EVERY_EVENT)
        sequence, messages = await jetstream.state(subjects.EVENTS)
        if messages == 0:
            return FeedEnd(sequence=sequence, position=0, edition=f".{sequence}")
    raise BusUnavailable("EVENTS does not become empty")


async def oldest_event(jetstream: JetStream) -> int:
    """The log position of the oldest message of EVENTS, 0 where it holds none."""
    message = await jetstream.next_message(subjects.EVENTS, EVERY_EVENT, 1)
    return position_of(message) if message else 0


async def first_where(
    jetstream: JetStream, reached: Callable[[StoredMessage], bool], low: int, high: int
) -> StoredMessage | None:
    """The first event that `reached` holds for, as for all behind it: a search by halves of sequences.

    It is sought from sequence `low` on, and is at `high` at the latest. Mostly the first look finds it.
    """
    found = await jetstream.next_message(subjects.EVENTS, EVERY_EVENT, low)
    if found is None or reached(found):
        return found
    low = found.sequence + 1
    while low < high:
        middle = (low + high) // 2
        found = await jetstream.next_message(subjects.EVENTS, EVERY_EVENT, middle)
        if found is None or reached(found):
            high = middle
        else:
            low = found.sequence + 1
    return await jetstream.next_message(subjects.EVENTS, EVERY_EVENT, low)


def position_of(message: StoredMessage) -> int:
    """The log position of an event."""
    return int(message.headers.get(subjects.POSITION_HEADER.lower(), "0"))


class _Common(msgspec.Struct):
    """What every stored event has."""

    type: str = ""
    trace_id: str = ""
    at: str = ""


def _payload(event: FeedEvent, room: int) -> bytes:
    """The event as it is stored, or a reference to it where it has more than `room` bytes."""
    if len(event.data) <= room:
        return event.data
    try:
        common = msgspec.json.decode(event.data, type=_Common)
    except (msgspec.DecodeError, UnicodeDecodeError):
        common = _Common()
    logs.get_logger("bus").warning("event_too_large", position=event.position, bytes=len(event.data))
    return wire.encode(
        EventTooLarge(
            event=common.type,
            trace_id=common.trace_id,
            at=common.at,
            position=event.position,
            conversation_id=event.conversation_id,
            bytes=len(event.data),
        )
    )


def _behind(events: Sequence[FeedEvent], place: int, end: FeedEnd) -> dict[str, str]:
    return {_EXPECTED_LAST_MESSAGE: end.message_id(events[place - 1].position)} if place else {}
