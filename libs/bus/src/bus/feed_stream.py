"""The EVENTS stream: every stored event once, in log order."""

from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec

from bus import follow
from bus.connection import Connection
from bus.errors import BusUnavailable, FeedConflict
from bus.jetstream import JetStream
from bus.positions import EVERY_EVENT, MESSAGE_ID, FeedEnd, feed_end, position_of
from contracts import subjects, wire
from contracts.feed import FeedEvent
from contracts.messages import EventTooLarge
from runtime import logs

_EXPECTED_LAST_SEQUENCE = "Nats-Expected-Last-Sequence"
_EXPECTED_LAST_MESSAGE = "Nats-Expected-Last-Msg-Id"
_CLEARINGS = 100
_HEADER_BYTES = 4096
"""More than the headers of an event take."""


class Feed:
    """Appending to EVENTS and reading it. Calls raise BusUnavailable unless they state otherwise."""

    def __init__(self, connection: Connection, jetstream: JetStream) -> None:
        self._connection = connection
        self._jetstream = jetstream

    async def publish_event(
        self,
        subject: str,
        data: bytes,
        stated: dict[str, str],
        *,
        message_id: str,
        expected_last_sequence: int,
    ) -> int:
        """Append one event after sequence `expected_last_sequence`; returns its own sequence.

        Raises FeedConflict when the stream does not end there (somebody else leads), BusUnavailable when it
        is unknown whether the event was stored; it may be repeated with the same `message_id`.
        """
        expectation = {_EXPECTED_LAST_SEQUENCE: str(expected_last_sequence)}
        try:
            return await self._jetstream.publish(subject, data, message_id, {**stated, **expectation})
        except FeedConflict:
            # The server compares sequences before it looks for a duplicate: an earlier try may be stored.
            stored = await self._jetstream.message(subjects.EVENTS, expected_last_sequence + 1)
            if stored is None or stored.headers.get(MESSAGE_ID) != message_id:
                raise
            return stored.sequence

    async def publish_events(self, events: Sequence[FeedEvent], end: FeedEnd) -> FeedEnd:
        """Append events after `end`, in one write; returns the new end.

        Each states its place and the event before it. Both are needed: with the place alone, an event whose
        predecessor was refused could be taken, because the message that stands in the predecessor's place has
        made the sequence right. So the last is taken only where all are, and is alone acknowledged: that
        takes a third of the CPU time of an acknowledgement for each, measured. `EventTooLarge` stands for an
        event that no message can hold.

        Raises FeedConflict, BusUnavailable; then the end is to be looked up again.
        """
        if not events:
            return end
        for place, event in enumerate(events[:-1]):
            stated = _stated(events, place, end) | {
                "Nats-Msg-Id": end.message_id(event.position),
                _EXPECTED_LAST_SEQUENCE: str(end.sequence + place),
            }
            await self._connection.publish(event.subject, self._payload(event), headers=stated)
        last, before = events[-1], end.sequence + len(events) - 1
        sequence = await self.publish_event(
            last.subject,
            self._payload(last),
            _stated(events, len(events) - 1, end),
            message_id=end.message_id(last.position),
            expected_last_sequence=before,
        )
        if sequence != before + 1:
            raise FeedConflict(before)
        return FeedEnd(sequence=sequence, position=last.position, edition=end.edition)

    def _payload(self, event: FeedEvent) -> bytes:
        return _payload(event, self._jetstream.max_payload - _HEADER_BYTES)

    async def clear(self) -> FeedEnd:
        """Remove every message; consumers and the count of sequences stay. Returns the empty end."""
        for _ in range(_CLEARINGS):  # a leader may be publishing
            await self._jetstream.purge(subjects.EVENTS, EVERY_EVENT)
            sequence, messages = await self._jetstream.state(subjects.EVENTS)
            if messages == 0:
                return FeedEnd(sequence=sequence, position=0, edition=f".{sequence}")
        raise BusUnavailable("EVENTS does not become empty")

    async def oldest(self) -> int:
        """The log position of the oldest message of EVENTS, 0 where it holds none."""
        message = await self._jetstream.next_message(subjects.EVENTS, EVERY_EVENT, 1)
        return position_of(message) if message else 0

    async def end(self) -> FeedEnd:
        return await feed_end(self._jetstream)

    def follow(
        self, wanted: follow.EventSelection, *, away: Callable[[BusUnavailable], None]
    ) -> AsyncGenerator[FeedEvent, None]:
        return follow.follow_events(self._connection, self._jetstream, wanted, away)


class _Common(msgspec.Struct):
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


def _stated(events: Sequence[FeedEvent], place: int, end: FeedEnd) -> dict[str, str]:
    if place == 0:
        return events[place].headers
    return events[place].headers | {_EXPECTED_LAST_MESSAGE: end.message_id(events[place - 1].position)}
