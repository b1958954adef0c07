"""`agentchat repair`: repair positions and EVENTS after the database has lost its last events."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence

import msgspec

from agentchat.administration import Admin
from agentchat.bus.bus import Bus
from agentchat.bus.feed_stream import EventSelection
from agentchat.contracts import events
from agentchat.contracts.feed_event import FeedEvent
from agentchat.contracts.text_checks import format_count
from agentchat.conversations.event_store.event_log import Log
from agentchat.ops import connections, printing
from agentchat.ops.errors import RefusedError
from agentchat.ops.replay.feed_command import refeed
from agentchat.runtime.postgres import Pool, acquire_connection, open_pool

LEFT_OUT = 1_000_000
"""Number of positions that are left unused after the last one that consumers may have seen."""

COMPARED = 100_000
"""The least number of positions at the end of EVENTS that are compared with the log."""

_AT_ONCE = 1_000


class LostEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Lost events, which consumers may have seen."""

    events: int
    first_position: int
    last_position: int
    conversations: list[str]
    deletions: list[str]
    """Conversations that reappeared because their deletion was lost."""


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """The position at which new events begin, and the lost events, if any."""

    next_position: int
    lost: LostEvents | None


def repair(seen: int, *, as_json: bool) -> None:
    """Repair the system and print what was lost. Raises StackError."""
    lost = connections.run_on_database(_find_lost, bus="needed")
    done = connections.run_on_database(lambda admin: _repair_as_owner(admin, lost, seen), bus="to provision")
    if as_json:
        printing.print_json(done)
    else:
        sys.stdout.writelines(f"{line}\n" for line in describe_repair(done))


async def find_lost(bus: Bus, pool: Pool) -> LostEvents | None:
    """Find the events of EVENTS that the log does not have. Raises BusUnavailable, DatabaseUnavailable."""
    end = await bus.feed.find_end()
    after = min(await Log(pool).read_head(), max(0, end.position - COMPARED))
    found: list[FeedEvent] = []
    batch: list[FeedEvent] = []
    if end.position > after:
        following = bus.feed.follow(EventSelection(start=after + 1), away=_raise_unavailable)
        async with contextlib.aclosing(following):
            async for event in following:
                batch.append(event)
                if len(batch) == _AT_ONCE or event.position >= end.position:
                    found += await _find_missing(pool, batch)
                    batch = []
                if event.position >= end.position:
                    break
    return _summarize(found) if found else None


async def repair_positions(bus: Bus, pool: Pool, lost: LostEvents | None, *, seen: int = 0) -> Repaired:
    """Move positions past all that consumers have seen; if events were lost, fill EVENTS again.

    `seen` is the last position that consumers have seen, if EVENTS does not say so.
    """
    end = await bus.feed.find_end()
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_SKIP, [max(seen, end.position) + LEFT_OUT])).fetchone()
    assert row is not None, "a function gives one row"
    if lost is not None:
        oldest = await bus.feed.find_oldest_position()
        await refeed(bus, Log(pool), min(oldest, lost.first_position), lambda _: None)
    return Repaired(next_position=row[0] + 1, lost=lost)


def describe_repair(done: Repaired) -> Iterator[str]:
    """Describe a repair for a terminal."""
    if done.lost is None:
        yield "no events were lost: EVENTS has no events beyond the log"
    else:
        yield (
            f"lost {format_count(done.lost.events, 'event')} of "
            f"{format_count(len(done.lost.conversations), 'conversation')} (positions "
            f"{done.lost.first_position:,} to {done.lost.last_position:,}), which consumers may have seen"
        )
        for each in done.lost.deletions:
            yield f"a deleted conversation is back: agentchat admin DELETE /conversations/{each}"
        yield "EVENTS was filled from the log; consumers receive some events again"
    yield f"new events begin at position {done.next_position:,}"


async def _find_lost(admin: Admin) -> LostEvents | None:
    return await find_lost(admin.need_bus(), admin.pool)


async def _repair_as_owner(admin: Admin, lost: LostEvents | None, seen: int) -> Repaired:
    """Repair with the login's own rights: only the database's owner may set a sequence."""
    async with open_pool(connections.find_servers(os.environ).database_url, role=None) as pool:
        return await repair_positions(admin.need_bus(), pool, lost, seen=seen)


async def _find_missing(pool: Pool, batch: Sequence[FeedEvent]) -> list[FeedEvent]:
    positions, ids = [each.position for each in batch], [each.conversation_id for each in batch]
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_NOT_IN_LOG, [positions, ids])).fetchall()
    missing = {position for (position,) in rows}
    return [each for each in batch if each.position in missing]


def _summarize(found: Sequence[FeedEvent]) -> LostEvents:
    deleted = events.ConversationErased.__name__
    return LostEvents(
        events=len(found),
        first_position=found[0].position,
        last_position=found[-1].position,
        conversations=sorted({each.conversation_id for each in found}),
        deletions=sorted({each.conversation_id for each in found if each.name == deleted}),
    )


def _raise_unavailable(error: Exception) -> None:
    raise RefusedError(f"NATS does not answer: {error}")


_SKIP = """
SELECT setval('conversation_events_notification_id_seq', greatest(last_value, %s))
  FROM conversation_events_notification_id_seq
"""

# The rows of an erased conversation are not in the log any more.
_NOT_IN_LOG = """
SELECT position FROM unnest(%s::bigint[], %s::text[]) AS seen (position, conversation_id)
 WHERE NOT EXISTS (SELECT FROM conversation_events
                    WHERE notification_id = position AND originator_id = seen.conversation_id)
   AND NOT EXISTS (SELECT FROM conversation_events
                    WHERE originator_id = seen.conversation_id AND topic = 'conversation_erased.v1')
"""
