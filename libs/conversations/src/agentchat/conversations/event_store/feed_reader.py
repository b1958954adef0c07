"""Read the log as EVENTS carries it, and remember how far it was fed.

EVENTS itself says where to continue. If it is lost, it is fed again with the events of the days that it
keeps. Read by `projector.feed_publisher`.
"""

import contextlib

import msgspec
from msgspec.structs import replace

from agentchat.contracts import events, wire
from agentchat.contracts.feed_event import FeedEvent
from agentchat.contracts.timings import EVENTS_KEPT_DAYS
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store.event_log import Log, LogEntry
from agentchat.conversations.event_store.mapper import get_event_name
from agentchat.runtime.postgres import Pool, acquire_connection

NO_ACCOUNT = "unknown"
_NAME = "events_feed"
_SEEDED = events.get_tag(events.ConversationSeeded)


class FeedPage(msgspec.Struct, frozen=True):
    """Events that follow each other; `is_last` if the log had no more when they were read."""

    events: list[FeedEvent]
    is_last: bool


class FeedReader:
    """A reader of the log as EVENTS carries it."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def read(self, after: int, limit: int) -> FeedPage:
        """Read up to `limit` stored events after position `after`, without ConversationSeeded's messages.

        Raises DatabaseUnavailable.
        """
        while True:
            entries = await self._log.read(after, limit)
            kept = [entry for entry in entries if not entry.erased]
            if kept or entries.is_last:
                break
            after = entries[-1].position
        found = [
            FeedEvent(
                position=entry.position,
                account_id=entry.account_id or NO_ACCOUNT,
                conversation_id=entry.conversation_id,
                name=get_event_name(entry.topic),
                data=_build_data(entry),
            )
            for entry in kept
        ]
        return FeedPage(found, entries.is_last)


def _build_data(entry: LogEntry) -> bytes:
    """Return an event as stored, but without the messages of ConversationSeeded.

    Clients send whole histories with each request, which would push out what EVENTS is for.
    """
    if entry.topic == _SEEDED:
        with contextlib.suppress(UnreadableEvent):
            seeded = entry.event
            assert isinstance(seeded, events.ConversationSeeded)
            return wire.encode(replace(seeded, messages=()))
    return entry.state


async def read_fed_position(pool: Pool) -> int:
    """Return the log position stored last, 0 if there is none. Raises DatabaseUnavailable."""
    return await _read_position(pool, _LAST, [_NAME])


async def find_kept_position(pool: Pool) -> int:
    """Return the log position before the first event of the days that EVENTS keeps.

    Raises DatabaseUnavailable.
    """
    return await _read_position(pool, _KEPT_FROM, [EVENTS_KEPT_DAYS])


async def store_fed_position(pool: Pool, position: int) -> None:
    """Store that everything up to `position` is in EVENTS. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        await conn.execute(_REMEMBER, [_NAME, position])


async def _read_position(pool: Pool, query: str, parameters: list[object]) -> int:
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(query, parameters)).fetchone()
    return int(row[0]) if row else 0


_LAST = "SELECT position FROM projection_positions WHERE name = %s"

# The CTE makes the planner use the index of times, which it would not for the minimum alone.
_KEPT_FROM = """
WITH kept AS MATERIALIZED (
    SELECT notification_id FROM conversation_events
     WHERE at >= (SELECT clock_timestamp() - make_interval(days => %s))
)
SELECT coalesce((SELECT min(notification_id) - 1 FROM kept),
                (SELECT max(notification_id) FROM conversation_events), 0)
"""

_REMEMBER = """
INSERT INTO projection_positions (name, position) VALUES (%s, %s)
ON CONFLICT (name) DO UPDATE SET position = excluded.position
"""
