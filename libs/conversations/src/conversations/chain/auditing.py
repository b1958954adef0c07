"""Verifies every link of the log, or of a part of it, in the order of the log. Changes nothing.

Each event is verified against the row before it in its conversation, whichever page that is in: so an audit
may begin anywhere, and holds a page in memory. What was changed together with its links, and events that were
cut off at a conversation's end, are found by a head of a day (`day_heads`) that was kept elsewhere.
"""

from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
from psycopg import sql

from contracts import events
from conversations.chain.links import ERASED, LINK_BYTES, link_of, seal_of
from conversations.database import EVENTS_TABLE
from conversations.event_store.log import Log, LogEntry
from runtime.postgres import Pool, connection

BATCH = 2000
_LOWEST = -(2**63)
"""Places that no event of ours has are read too: an event that was put in may have one."""

OnPosition = Callable[[int], None]
"""Takes the log position that was verified last."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Log positions in [first, last]; or these conversations alone."""

    first: int = 1
    last: int
    conversations: tuple[str, ...] | None = None


class BrokenChain(msgspec.Struct, frozen=True, kw_only=True):
    """The first place of a conversation at which its chain does not hold."""

    conversation_id: str
    version: int
    position: int
    reason: str


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """An erased conversation. `proved`: seals of what was erased are here, and the erasure follows them. Else
    nothing of it was here: it was imported as erased, or is made up.
    """

    conversation_id: str
    version: int
    position: int
    at: str
    trace_id: str
    proved: bool


class Audit(msgspec.Struct, kw_only=True):
    """What was found of so many `events`, up to position `last`."""

    last: int
    events: int = 0
    broken: list[BrokenChain] = []
    erased: list[Erased] = []


class _Row(msgspec.Struct, frozen=True):
    """What there is of an event next to its entry: its hash, that of the row before, if that is there, the
    last seal of what an erasure deleted, and the highest position that was drawn by now.
    """

    hash: bytes | None
    previous_position: int | None
    previous_topic: str | None
    previous: bytes | None
    seal: bytes | None
    drawn: int

    @property
    def has_previous(self) -> bool:
        return self.previous_position is not None


async def audit(
    pool: Pool, log: Log, scope: Scope, *, on_position: OnPosition = lambda _: None, batch: int = BATCH
) -> Audit:
    """Verify every event in scope. Raises DatabaseUnavailable, UnreadableEvent (of an erasure)."""
    found = Audit(last=scope.last)
    broken: set[str] = set()
    async for page in _pages(log, scope, batch):
        rows = await _rows(pool, page)
        for entry in page:
            row = rows.get(entry.position)
            if row is None:
                continue  # erased since the page was read
            found.events += 1
            reason = _fault(entry, row) or _misplaced(entry, row)
            if reason is None:
                _note(found, entry, row)
            elif entry.conversation_id not in broken:
                broken.add(entry.conversation_id)
                found.broken.append(_broken(entry, reason))
        on_position(page[-1].position)
    return found


async def _pages(log: Log, scope: Scope, batch: int) -> AsyncIterator[list[LogEntry]]:
    if scope.conversations is not None:
        for conversation_id in scope.conversations:
            if rows := await log.all_of(conversation_id):
                yield rows
        return
    after = scope.first - 1 if scope.first > 1 else _LOWEST
    while after < scope.last:
        read = await log.read_all(after, batch)
        page = [entry for entry in read if entry.position <= scope.last]
        if not page:
            return
        yield page
        after = page[-1].position


def _fault(entry: LogEntry, row: _Row) -> str | None:
    """Why the chain does not hold at this event; None where it does."""
    erasure = entry.topic == ERASED
    if erasure and row.has_previous:
        return "an event before the erasure is there"
    if erasure and entry.version == 1:
        return "the erasure erased nothing"
    if not erasure and not row.has_previous and entry.version > 1:
        return f"the event before it, version {entry.version - 1:,}, is missing"
    if row.hash is None:
        return "its hash is missing"
    if len(row.hash) not in (LINK_BYTES, 2 * LINK_BYTES):
        return "its hash is none"
    own = row.hash[:-LINK_BYTES]
    if bool(own) == row.has_previous:
        return "it begins a chain of its own" if own else "the event before it has no hash"
    previous = own or (row.previous or b"")[-LINK_BYTES:]
    if row.seal is not None and seal_of(previous) != row.seal:
        return "the erasure does not follow what was erased"
    if row.hash[-LINK_BYTES:] != _link(entry, previous):
        return "it is not what was stored, or does not follow the event before it"
    return None


def _misplaced(entry: LogEntry, row: _Row) -> str | None:
    """Why an event that follows the one before it by its link cannot have been appended after it."""
    if entry.version < 1:
        return "no event has such a place"
    if entry.position > row.drawn:
        return "no position that high was drawn yet"
    if row.previous_topic == ERASED:
        return "it stands after the erasure"
    if entry.position < max(row.previous_position or 0, 1):
        return "its position is before that of the event before it"
    return None


def _link(entry: LogEntry, previous: bytes) -> bytes:
    return link_of(previous, entry.conversation_id, entry.version, entry.position, entry.topic, entry.state)


def _note(found: Audit, entry: LogEntry, row: _Row) -> None:
    if entry.topic == ERASED:
        event = entry.event
        assert isinstance(event, events.ConversationErased), "its topic says so"
        found.erased.append(
            Erased(
                conversation_id=entry.conversation_id,
                version=entry.version,
                position=entry.position,
                at=event.at,
                trace_id=event.trace_id,
                proved=row.seal is not None,
            )
        )


def _broken(entry: LogEntry, reason: str) -> BrokenChain:
    return BrokenChain(
        conversation_id=entry.conversation_id, version=entry.version, position=entry.position, reason=reason
    )


async def _rows(pool: Pool, page: Sequence[LogEntry]) -> dict[int, _Row]:
    """By position."""
    positions = [entry.position for entry in page]
    async with connection(pool) as conn, conn.cursor(binary=True) as cursor:
        await cursor.execute(_ROWS, [positions])
        return {row[0]: _Row(*row[1:]) for row in await cursor.fetchall()}


_TABLE = sql.Identifier(EVENTS_TABLE)
_ROWS = sql.SQL(
    "SELECT event.notification_id, event.hash, before.notification_id, before.topic, before.hash,"
    "       CASE WHEN event.topic = 'conversation_erased.v1' THEN"
    "            (SELECT seals[cardinality(seals)] FROM erased_links"
    "              WHERE conversation_id = event.originator_id AND piece = 0) END,"
    "       (SELECT coalesce(pg_sequence_last_value('conversation_events_notification_id_seq'), 0))"
    "  FROM {table} event LEFT JOIN {table} before"
    "    ON before.originator_id = event.originator_id"
    "   AND before.originator_version = event.originator_version - 1"
    " WHERE event.notification_id = ANY(%s::bigint[])"
).format(table=_TABLE)
