"""Append to and follow the EVENTS stream: every stored event once, in log order.

A follower has no consumer on the server: a plain subscription only wakes it, and it reads the events by
sequence. So it misses nothing while disconnected, and continues by log position in a stream that was emptied
or created again.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from datetime import datetime

import msgspec
import nats.errors

from agentchat.bus.connection import Connection
from agentchat.bus.errors import BusUnavailable, FeedConflict
from agentchat.bus.feed_seek import EVERY_EVENT, MESSAGE_ID, FeedEnd, find_feed_end, find_first, get_position
from agentchat.bus.jetstream import JetStream, StoredMessage
from agentchat.contracts import subjects, wire
from agentchat.contracts.feed_event import FeedEvent
from agentchat.contracts.messages import EventTooLarge
from agentchat.runtime import logs
from agentchat.runtime.retry_loops import wait_for_event

_POLL_SECONDS = 0.5
_GATHER_SECONDS = 0.02

_EXPECTED_LAST_SEQUENCE = "Nats-Expected-Last-Sequence"
_EXPECTED_LAST_MESSAGE = "Nats-Expected-Last-Msg-Id"
_CLEARINGS = 100


class EventSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The events to follow: of one account or all, of one name or all, and from where.

    `start` is a log position, a time, or None for now. A time is compared with when EVENTS got the event,
    which is not before it happened.
    """

    account_id: str | None = None
    name: str | None = None
    start: int | datetime | None = None

    @property
    def subject(self) -> str:
        """The subject of these events, with wildcards."""
        return subjects.format_feed(self.account_id, self.name)


async def follow_events(
    connection: Connection,
    jetstream: JetStream,
    wanted: EventSelection,
    away: Callable[[BusUnavailable], None],
) -> AsyncGenerator[FeedEvent, None]:
    """Yield each event once, in log order.

    `away` is called whenever NATS cannot be read, which is then retried.
    """
    woken = asyncio.Event()
    subscription = await connection.subscribe(wanted.subject, lambda _: woken.set())
    try:
        place: _ReadPosition | None = None
        while True:
            woken.clear()
            try:
                place = place or await _find_start(jetstream, wanted.start)
                async for event in _read_new_events(jetstream, wanted.subject, place):
                    yield event
            except (BusUnavailable, nats.errors.Error) as error:
                away(error if isinstance(error, BusUnavailable) else BusUnavailable(str(error)))
                await asyncio.sleep(_POLL_SECONDS)
                continue
            if await wait_for_event(woken, _POLL_SECONDS):
                await asyncio.sleep(
                    _GATHER_SECONDS
                )  # a message is announced a moment before the stream has it
    finally:
        await connection.unsubscribe(subscription)


class _ReadPosition(msgspec.Struct):
    """The sequence to read from, and the log position up to which every event was read."""

    sequence: int
    position: int


async def _read_new_events(
    jetstream: JetStream, subject: str, place: _ReadPosition
) -> AsyncIterator[FeedEvent]:
    found = False
    async for message in jetstream.read_messages(subjects.EVENTS, subject, place.sequence):
        found = True
        place.sequence = message.sequence + 1
        event = _to_event(message)
        if event.position > place.position:  # a stream that is fed again repeats them
            place.position = event.position
            yield event
    if not found and (await jetstream.get_stream_state(subjects.EVENTS))[0] < place.sequence - 1:
        place.sequence = 1  # the stream was created again


async def _find_start(jetstream: JetStream, start: int | datetime | None) -> _ReadPosition:
    end = await find_feed_end(jetstream)
    match start:
        case None:
            return _ReadPosition(end.sequence + 1, end.position)
        case int():
            found = await find_first(jetstream, lambda each: get_position(each) >= start, 1, end.sequence + 1)
            return _ReadPosition(found.sequence if found else end.sequence + 1, start - 1)
        case datetime():
            found = await find_first(jetstream, lambda each: each.stored_at >= start, 1, end.sequence + 1)
            return _ReadPosition(found.sequence if found else end.sequence + 1, 0)


def _to_event(message: StoredMessage) -> FeedEvent:
    _, _, account_id, name = message.subject.split(".", 3)
    return FeedEvent(
        position=get_position(message),
        account_id=account_id,
        conversation_id=message.headers.get(subjects.CONVERSATION_HEADER, ""),
        name=name,
        data=message.data,
    )


class Feed:
    """The EVENTS stream. Methods raise BusUnavailable unless they state otherwise."""

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
        """Append one event after sequence `expected_last_sequence`; return its own sequence.

        Raises:
            FeedConflict: The stream does not end there: another projector leads.
            BusUnavailable: It is unknown whether the event was stored; repeat it with the same `message_id`.
        """
        expectation = {_EXPECTED_LAST_SEQUENCE: str(expected_last_sequence)}
        try:
            return await self._jetstream.publish(subject, data, message_id, {**stated, **expectation})
        except FeedConflict:
            # The server compares sequences before it looks for duplicates: an earlier attempt may be stored.
            stored = await self._jetstream.get_message(subjects.EVENTS, expected_last_sequence + 1)
            if stored is None or stored.headers.get(MESSAGE_ID) != message_id:
                raise
            return stored.sequence

    async def publish_events(self, events: Sequence[FeedEvent], end: FeedEnd) -> FeedEnd:
        """Append events after `end` in one write; return the new end.

        Each event states its place and the event before it. Both are needed: with only the place, an event
        whose predecessor was refused could be accepted, because the message in the predecessor's place has
        made the sequence right. So the last event is accepted only if all are, and only the last is
        acknowledged. That takes a third of the CPU time of an acknowledgement for each, measured.
        `EventTooLarge` replaces an event that no message can hold.

        Raises:
            FeedConflict, BusUnavailable: Look up the end again.
        """
        if not events:
            return end
        for place, event in enumerate(events[:-1]):
            stated = _build_headers(events, place, end) | {
                MESSAGE_ID: end.format_message_id(event.position),
                _EXPECTED_LAST_SEQUENCE: str(end.sequence + place),
            }
            await self._connection.publish(event.subject, self._build_payload(event), headers=stated)
        last, before = events[-1], end.sequence + len(events) - 1
        sequence = await self.publish_event(
            last.subject,
            self._build_payload(last),
            _build_headers(events, len(events) - 1, end),
            message_id=end.format_message_id(last.position),
            expected_last_sequence=before,
        )
        if sequence != before + 1:
            raise FeedConflict(before)
        return FeedEnd(sequence=sequence, position=last.position, edition=end.edition)

    def _build_payload(self, event: FeedEvent) -> bytes:
        return _fit_payload(event, self._connection.message_room)

    async def clear(self) -> FeedEnd:
        """Remove every message; consumers and the count of sequences stay. Return the empty end."""
        for _ in range(_CLEARINGS):  # a projector may be publishing
            await self._jetstream.purge(subjects.EVENTS, EVERY_EVENT)
            sequence, messages = await self._jetstream.get_stream_state(subjects.EVENTS)
            if messages == 0:
                return FeedEnd(sequence=sequence, position=0, edition=f".{sequence}")
        raise BusUnavailable("EVENTS does not become empty")

    async def find_oldest_position(self) -> int:
        """Return the log position of the oldest message of EVENTS, 0 if it holds none."""
        message = await self._jetstream.get_next_message(subjects.EVENTS, EVERY_EVENT, 1)
        return get_position(message) if message else 0

    async def find_end(self) -> FeedEnd:
        """Return the end of EVENTS."""
        return await find_feed_end(self._jetstream)

    def follow(
        self, wanted: EventSelection, *, away: Callable[[BusUnavailable], None]
    ) -> AsyncGenerator[FeedEvent, None]:
        """Yield events from `wanted.start` on; see `follow_events`."""
        return follow_events(self._connection, self._jetstream, wanted, away)


class _Common(msgspec.Struct):
    type: str = ""
    trace_id: str = ""
    at: str = ""


def _fit_payload(event: FeedEvent, room: int) -> bytes:
    """Return the event as it is stored, or a reference to it if it has more than `room` bytes."""
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


def _build_headers(events: Sequence[FeedEvent], place: int, end: FeedEnd) -> dict[str, str]:
    if place == 0:
        return events[place].headers
    return events[place].headers | {_EXPECTED_LAST_MESSAGE: end.format_message_id(events[place - 1].position)}
