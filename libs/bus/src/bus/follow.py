"""EVENTS as it grows, for one who looks on: no consumer on the server, so nothing is left of it there.

A plain subscription only wakes it; the events themselves are read from the stream by sequence. So nothing is
missed while the connection is away, and a stream that was emptied or made again is read on by log position.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from datetime import UTC, datetime

import msgspec
import nats.errors

from bus.connection import Connection
from bus.errors import BusUnavailable
from bus.jetstream import JetStream, StoredMessage
from bus.positions import feed_end, first_where, position_of
from contracts import subjects
from contracts.feed import FeedEvent

_POLL_SECONDS = 0.5
_GATHER_SECONDS = 0.02


class EventSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Which events: of one account or all, of one name or all; from a log position or a time on, or from now.

    A time is compared with when EVENTS got the event, which is not before it happened.
    """

    account_id: str | None = None
    name: str | None = None
    start: int | datetime | None = None

    @property
    def subject(self) -> str:
        return subjects.fed(self.account_id, self.name)


async def follow_events(
    connection: Connection,
    jetstream: JetStream,
    wanted: EventSelection,
    away: Callable[[BusUnavailable], None],
) -> AsyncGenerator[FeedEvent, None]:
    """Each event once, in log order. `away` is called whenever NATS cannot be read; it is tried again."""
    woken = asyncio.Event()
    wake = connection.client
    subscription = wake.subscribe_direct(wanted.subject, lambda *_: woken.set())
    try:
        place: _ReadPosition | None = None
        while True:
            woken.clear()
            try:
                place = place or await _start(jetstream, wanted.start)
                async for event in _new(jetstream, wanted.subject, place):
                    yield event
            except (BusUnavailable, nats.errors.Error) as error:
                away(error if isinstance(error, BusUnavailable) else BusUnavailable(str(error)))
                await asyncio.sleep(_POLL_SECONDS)
                continue
            await _wait(woken)
    finally:
        wake.unsubscribe_direct(subscription)


class _ReadPosition(msgspec.Struct):
    """The sequence to read from, and the log position up to which everything was seen."""

    sequence: int
    position: int


async def _new(jetstream: JetStream, subject: str, place: _ReadPosition) -> AsyncIterator[FeedEvent]:
    found = False
    async for message in jetstream.messages(subjects.EVENTS, subject, place.sequence):
        found = True
        place.sequence = message.sequence + 1
        event = _event(message)
        if event.position > place.position:  # a stream that is fed again repeats events
            place.position = event.position
            yield event
    if not found and (await jetstream.state(subjects.EVENTS))[0] < place.sequence - 1:
        place.sequence = 1  # another stream than before


async def _start(jetstream: JetStream, start: int | datetime | None) -> _ReadPosition:
    end = await feed_end(jetstream)
    match start:
        case None:
            return _ReadPosition(end.sequence + 1, end.position)
        case int():
            found = await first_where(jetstream, lambda each: position_of(each) >= start, 1, end.sequence + 1)
            return _ReadPosition(found.sequence if found else end.sequence + 1, start - 1)
        case datetime():
            found = await first_where(jetstream, lambda each: _stored_at(each) >= start, 1, end.sequence + 1)
            return _ReadPosition(found.sequence if found else end.sequence + 1, 0)


async def _wait(woken: asyncio.Event) -> None:
    """For the next event, which is announced a moment before the stream has it."""
    try:
        async with asyncio.timeout(_POLL_SECONDS):
            await woken.wait()
            await asyncio.sleep(_GATHER_SECONDS)
    except TimeoutError:
        pass


def _event(message: StoredMessage) -> FeedEvent:
    _, _, account_id, name = message.subject.split(".", 3)
    return FeedEvent(
        position=position_of(message),
        account_id=account_id,
        conversation_id=message.headers.get(subjects.CONVERSATION_HEADER.lower(), ""),
        name=name,
        data=message.data,
    )


def _stored_at(message: StoredMessage) -> datetime:
    text = message.headers["nats-time-stamp"]
    # Nanoseconds, which a datetime does not have.
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}").replace(tzinfo=UTC)
