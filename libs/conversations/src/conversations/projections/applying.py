"""From the log to facts for projections, and from facts into their tables; what cannot be taken is parked."""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import psycopg

from contracts import events
from contracts.text import cleaned
from conversations.errors import UnreadableEvent
from conversations.event_store.log import PAGE_BYTES, Log, LogEntry, bytes_of
from conversations.event_store.owners import NAMING, Owners
from conversations.projections.projection import LoggedFact, Projection
from conversations.projections.shards import ALL_SHARDS, SHARDS, shard_of
from runtime.postgres import Connection

Placed = LogEntry | LoggedFact

Wanted = Callable[[int, int], Collection[str]]
"""The names of the projections that take what is of a shard, the first argument, at a position."""

LONG = 1000
"""What an erased conversation of more events has in the tables is deleted in pieces."""

_ERASED = events.tag_of(events.ConversationErased)
_TAGS: Mapping[str, type[events.Fact]] = {events.tag_of(each): each for each in events.EVENTS}


class FactBatch(msgspec.Struct):
    """The facts of a stretch of the log for one projection."""

    facts: list[LoggedFact] = msgspec.field(default_factory=list)
    unreadable: list[tuple[Placed, Exception]] = msgspec.field(default_factory=list)

    def after(self, position: int) -> "FactBatch":
        """What is after `position`."""
        return FactBatch(
            [fact for fact in self.facts if fact.position > position],
            [pair for pair in self.unreadable if pair[0].position > position],
        )


class LongErasure(msgspec.Struct, frozen=True):
    """An erased conversation that had many events. `merged`: its runs are counted together from now on."""

    conversation_id: str
    merged: bool


class LogPage(msgspec.Struct, frozen=True):
    """A stretch of the log after `start` up to `end`: how many entries, and the facts for each, by name."""

    start: int
    size: int
    end: int
    batches: dict[str, FactBatch]
    erased: tuple[LongErasure, ...] = ()


class FactReader:
    """Reads the log for some projections. What none of them takes, and what is of a shard that is not wanted,
    is neither sent nor decoded.
    """

    def __init__(self, log: Log, projections: Sequence[Projection]) -> None:
        self._log = log
        self._owners = Owners(log)
        self._projections = tuple(projections)
        self._takers = {tag: tuple(p for p in projections if cls in p.takes) for tag, cls in _TAGS.items()}
        self._unwanted = [tag for tag, takers in self._takers.items() if not takers and tag not in NAMING]

    async def read(
        self,
        after: int,
        limit: int,
        until: int | None = None,
        wanted: Wanted | None = None,
        shards: Collection[int] = ALL_SHARDS,
    ) -> LogPage | None:
        """Up to `limit` entries after `after`, none after `until` (it is settled); None where there are none.

        With `wanted` the facts for those alone, with `shards` those of these. Raises DatabaseUnavailable.
        """
        read = self._read if len(shards) == SHARDS else partial(self._read_some, shards)
        found = await read(after, limit, until)
        if found is None:
            return None
        batches = {each.name: FactBatch() for each in self._projections}
        erased: list[LongErasure] = []
        for entry in found.entries:
            # A tag of before an upcast, or an unknown one, may be of any type.
            takers = self._takers.get(entry.topic, self._projections)
            account_id = found.accounts.get(entry.conversation_id)
            if wanted is not None:
                names = wanted(shard_of(account_id or entry.conversation_id), entry.position)
                takers = tuple(each for each in takers if each.name in names)
            if takers:
                _hand_out(batches, takers, entry, account_id)
                erased.extend(_long_erasure(entry))
        return LogPage(after, found.size, found.end, batches, tuple(erased))

    async def _read(self, after: int, limit: int, until: int | None) -> "_Found | None":
        entries = await self._log.read(after, limit, without=self._unwanted, until=until)
        if not entries:
            return None
        return _Found(entries, await self._owners.of(entries), len(entries), entries[-1].position)

    async def _read_some(
        self, shards: Collection[int], after: int, limit: int, until: int | None
    ) -> "_Found | None":
        """The log does not know of accounts: so first whose its conversations are."""
        outline = await self._log.outline(after, limit, until=until)
        if outline is None:
            return None
        accounts = await self._owners.of_conversations(outline.conversation_ids)
        only = [each for each in outline.conversation_ids if shard_of(accounts.get(each) or each) in shards]
        if not only:
            return _Found([], accounts, outline.size, outline.end)
        entries = await self._log.read_some(only, after, outline, self._unwanted)
        if bytes_of(entries) >= PAGE_BYTES:  # the rest comes with the next page, which is not the last
            return _Found(entries, accounts, limit, entries[-1].position)
        return _Found(entries, accounts, outline.size, outline.end)


class _Found(NamedTuple):
    """Entries of a stretch, which ends at `end` and has `size`, and the accounts of its conversations."""

    entries: list[LogEntry]
    accounts: dict[str, str]
    size: int
    end: int


def _long_erasure(entry: LogEntry) -> Iterator[LongErasure]:
    if entry.topic == _ERASED and entry.version > LONG:
        with contextlib.suppress(UnreadableEvent):
            event = entry.event
            merged = isinstance(event, events.ConversationErased) and any(s.runs > 1 for s in event.spent)
            yield LongErasure(entry.conversation_id, merged)


class RefusedEvent(msgspec.Struct, frozen=True):
    """An event that a projection could not take, and why: no content of it."""

    position: int
    conversation_id: str
    reason: str


async def take(
    conn: Connection, projection: Projection, batch: FactBatch, stored_as: str
) -> list[RefusedEvent]:
    """Bring it into the table that `conn` finds, in its open transaction; what it cannot take is parked."""
    refused = [*batch.unreadable, *await _apply(conn, projection, batch.facts)]
    return [await _park(conn, stored_as, entry, error) for entry, error in refused]


def _hand_out(
    batches: Mapping[str, FactBatch], takers: Sequence[Projection], entry: LogEntry, account_id: str | None
) -> None:
    try:
        if account_id is None:
            raise UnreadableEvent(entry.topic, "nothing says whose its conversation is")  # noqa: TRY301
        size = len(entry.state)
        fact = LoggedFact(entry.position, entry.conversation_id, account_id, entry.event, size)
    except UnreadableEvent as error:
        for each in takers:
            batches[each.name].unreadable.append((entry, error))
        return
    kind, inherited = type(fact.event), fact.event.inherited_from is not msgspec.UNSET
    for each in takers:
        if kind in each.takes and (each.takes_inherited or not inherited):
            batches[each.name].facts.append(fact)


async def _apply(
    conn: Connection, projection: Projection, facts: Sequence[LoggedFact]
) -> list[tuple[Placed, Exception]]:
    """All at once; if one of them cannot be taken, half by half, to find it."""
    if not facts:
        return []
    try:
        async with conn.transaction():
            for statement, parameters in projection.statements(facts):
                await conn.execute(statement, parameters)
    except REFUSALS as error:
        if len(facts) == 1:
            return [(facts[0], error)]
        middle = len(facts) // 2
        return [
            *await _apply(conn, projection, facts[:middle]),
            *await _apply(conn, projection, facts[middle:]),
        ]
    return []


async def _park(conn: Connection, stored_as: str, entry: Placed, error: Exception) -> RefusedEvent:
    refused = RefusedEvent(entry.position, entry.conversation_id, _reason(error))
    await conn.execute(_PARK, [stored_as, *msgspec.structs.astuple(refused)])
    return refused


def _reason(error: Exception) -> str:
    """Of the server's words only the first line: its details repeat what the row holds."""
    message = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return cleaned(message or str(error))[:500]


# What the server or psycopg says of a value that does not fit its column.
REFUSALS = (UnreadableEvent, psycopg.DataError, psycopg.IntegrityError, UnicodeError)

_PARK = """
INSERT INTO parked_events (projection, position, conversation_id, reason) VALUES (%s, %s, %s, %s)
ON CONFLICT (projection, position) DO UPDATE SET reason = excluded.reason, at = excluded.at
"""
