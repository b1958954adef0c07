"""`agentchat replay feed`: empty EVENTS and fill it again from the log."""

import sys
import time
from collections.abc import Callable
from typing import Annotated

import msgspec
import typer

from agentchat.administration import Admin
from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable, FeedConflict
from agentchat.bus.feed_seek import FeedEnd
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.event_store.feed_reader import FeedReader
from agentchat.ops import connections, printing
from agentchat.ops.admin.options import AsJson, Yes, confirm
from agentchat.ops.errors import RefusedError
from agentchat.ops.replay.rebuild_command import Bar
from agentchat.runtime.postgres import DatabaseUnavailable

BATCH = 200
_TRIES = 20

OnPosition = Callable[[int], None]
"""Callback with the log position that was published last."""


class Refed(msgspec.Struct, frozen=True, kw_only=True):
    """First and last position in EVENTS, and the number of events that this process published."""

    first: int
    last: int
    published: int
    seconds: float


def feed(
    start: Annotated[int, typer.Option("--from", help="The first log position; 1 for the complete log.")],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Empty the EVENTS stream and fill it again from the log, in order, while the system runs.

    Use it for events older than the retention of EVENTS, or for consumers that start again: the projector
    refills a lost EVENTS by itself. Consumers receive some events again, and recognise them by
    Chat-Log-Position. Exit code 2: no such position.
    """
    oldest = connections.run_on_database(lambda admin: _find_oldest_position(admin, start), bus="needed")
    held = f"which starts at position {oldest:,}" if oldest else "which is empty"
    confirm(f"Empty EVENTS, {held}, and fill it from position {start:,}?", yes=yes)
    done = connections.run_on_database(
        lambda admin: _feed_again(admin, start),
        bus="to provision",
        stopped="stopped; a running projector continues from here",
    )
    if as_json:
        printing.print_json(done)
        return
    sys.stdout.write(
        f"EVENTS now has positions {done.first:,} to {done.last:,}; "
        f"published {done.published:,} events in {done.seconds:.1f} s\n"
    )


async def refeed(bus: Bus, log: Log, start: int, on_position: OnPosition) -> int:
    """Fill EVENTS with exactly the events from position `start` on. Return the number published.

    Safe while projectors run: the second publisher of an event is refused and continues at the end of EVENTS.
    Raises BusUnavailable, DatabaseUnavailable.
    """
    reader = FeedReader(log)
    end, published = await _begin(bus, reader, start)
    while True:
        on_position(end.position)
        events = (await reader.read(max(end.position, start - 1), BATCH)).events
        if not events:
            return published
        try:
            end = await bus.feed.publish_events(events, end)
            published += len(events)
        except FeedConflict:
            end = await bus.feed.find_end()


async def _begin(bus: Bus, reader: FeedReader, start: int) -> tuple[FeedEnd, int]:
    """Empty EVENTS and publish the first events; retry if a projector published newer ones first."""
    for _ in range(_TRIES):
        end = await bus.feed.clear()
        events = (await reader.read(start - 1, BATCH)).events
        try:
            return await bus.feed.publish_events(events, end), len(events)
        except FeedConflict:
            continue
    raise BusUnavailable("another process keeps publishing to EVENTS")


async def _find_oldest_position(admin: Admin, start: int) -> int:
    """Find the oldest position in EVENTS, 0 if empty. Raises RefusedError if the log has no `start`."""
    head = await Log(admin.pool).read_head()
    if not 1 <= start <= head:
        reach = f"goes from 1 to {head:,}" if head else "is empty"
        raise RefusedError(f"there is no position {start:,}: the log {reach}", 2)
    return await admin.need_bus().feed.find_oldest_position()


async def _feed_again(admin: Admin, start: int) -> Refed:
    log = Log(admin.pool)
    head = last = await log.read_head()
    began = time.monotonic()
    with Bar("feed") as bar:

        def on_position(position: int) -> None:
            nonlocal last
            last = position
            bar.on_advance(position, head)

        try:
            published = await refeed(admin.need_bus(), log, start, on_position)
        except (BusUnavailable, DatabaseUnavailable) as error:
            raise RefusedError(f"EVENTS is incomplete, run the command again: {error}") from None
    return Refed(first=start, last=last, published=published, seconds=time.monotonic() - began)
