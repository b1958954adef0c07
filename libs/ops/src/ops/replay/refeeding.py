"""EVENTS emptied, and fed again from the log: the work behind `agentchat replay feed`."""

import time
from collections.abc import Callable

import msgspec

from administration import Admin
from bus import Bus, BusUnavailable, FeedConflict, FeedEnd
from conversations.event_store.feed_reader import FeedReader
from conversations.event_store.log import Log
from ops.admin import database
from ops.admin.errors import RefusedError
from ops.replay.read_models import Bar
from runtime.postgres import DatabaseUnavailable

BATCH = 200
_TRIES = 20

OnPosition = Callable[[int], None]
"""Takes the log position that was fed last."""


class Refed(msgspec.Struct, frozen=True, kw_only=True):
    """Positions of the log, and how many events this process published: a projector may have helped."""

    first: int
    last: int
    published: int
    seconds: float


def check(start: int) -> int:
    """The oldest position in EVENTS, 0 if it is empty. Raises RefusedError where the log has no `start`."""

    async def work(admin: Admin) -> int:
        head = await _head(admin)
        if not 1 <= start <= head:
            reach = f"goes from 1 to {head:,}" if head else "is empty"
            raise RefusedError(f"there is no position {start:,}: the log {reach}", 2)
        return await _bus(admin).feed.oldest()

    return database.run(work, bus="needed")


def run(start: int) -> Refed:
    """Feed EVENTS from `start` on, with a bar on a terminal. Raises RefusedError."""
    return database.run(lambda admin: _run(admin, start), bus="to provision")


async def refeed(bus: Bus, log: Log, start: int, on_position: OnPosition) -> int:
    """Have EVENTS hold every event from position `start` on, and no other. Returns how many it published.

    Safe while projectors run: whoever comes second with an event is refused, and looks where EVENTS ends.
    Raises BusUnavailable, DatabaseUnavailable.
    """
    reader = FeedReader(log)
    end, published = await _begin(bus, reader, start)
    while True:
        on_position(end.position)
        events = await reader.read(max(end.position, start - 1), BATCH)
        if not events:
            return published
        try:
            end = await bus.feed.publish_events(events, end)
            published += len(events)
        except FeedConflict:
            end = await bus.feed.end()


async def _begin(bus: Bus, reader: FeedReader, start: int) -> tuple[FeedEnd, int]:
    """Empty EVENTS and publish the first events; again, where a leader was quicker with newer ones."""
    for _ in range(_TRIES):
        end = await bus.feed.clear()
        events = await reader.read(start - 1, BATCH)
        try:
            return await bus.feed.publish_events(events, end), len(events)
        except FeedConflict:
            continue
    raise BusUnavailable("somebody else goes on publishing to EVENTS")


async def _run(admin: Admin, start: int) -> Refed:
    head = last = await _head(admin)
    began = time.monotonic()
    with Bar("feed") as bar:

        def on_position(position: int) -> None:
            nonlocal last
            last = position
            bar.advanced(position, head)

        try:
            published = await refeed(_bus(admin), Log(admin.pool), start, on_position)
        except (BusUnavailable, DatabaseUnavailable) as error:
            raise RefusedError(f"EVENTS is not fed to its end, do it again: {error}") from None
    return Refed(first=start, last=last, published=published, seconds=time.monotonic() - began)


async def _head(admin: Admin) -> int:
    try:
        return await Log(admin.pool).head()
    except DatabaseUnavailable as error:
        raise RefusedError(f"the database does not answer: {error}") from None


def _bus(admin: Admin) -> Bus:
    assert admin.bus is not None
    return admin.bus
