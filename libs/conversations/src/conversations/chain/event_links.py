"""The links of single events, each verified against the event before it: for whoever reads the log, and may
read neither what is left of erased conversations nor which positions were drawn. `auditing` verifies all.
"""

from collections.abc import Sequence

import msgspec
from psycopg import sql

from conversations.chain.links import LINK_BYTES, link_of
from conversations.database import EVENTS_TABLE
from conversations.event_store.log import LogEntry
from runtime.postgres import Pool, connection


class EventLink(msgspec.Struct, frozen=True):
    """A link in hexadecimal. `holds`: it is what follows from the event's content and the link before."""

    link: str
    holds: bool


async def event_links(pool: Pool, entries: Sequence[LogEntry]) -> dict[int, EventLink]:
    """By log position; one that was erased meanwhile is left out. Raises DatabaseUnavailable."""
    positions = [entry.position for entry in entries]
    async with connection(pool) as conn, conn.cursor(binary=True) as cursor:
        rows = {row[0]: row[1:] for row in await (await cursor.execute(_HASHES, [positions])).fetchall()}
    return {
        entry.position: _checked(entry, *rows[entry.position]) for entry in entries if entry.position in rows
    }


def _checked(entry: LogEntry, stored: bytes | None, before: bytes | None) -> EventLink:
    stored = stored or b""
    previous = stored[:-LINK_BYTES] or (before or b"")[-LINK_BYTES:]
    link = link_of(previous, entry.conversation_id, entry.version, entry.position, entry.topic, entry.state)
    return EventLink(stored[-LINK_BYTES:].hex(), stored[-LINK_BYTES:] == link)


_HASHES = sql.SQL("""
SELECT event.notification_id, event.hash, before.hash
  FROM {table} AS event LEFT JOIN {table} AS before
    ON before.originator_id = event.originator_id
   AND before.originator_version = event.originator_version - 1
 WHERE event.notification_id = ANY(%s::bigint[])
""").format(table=sql.Identifier(EVENTS_TABLE))
