"""Read facts from the log, and apply them to the tables of read models; park what cannot be applied."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec
import psycopg

from agentchat.contracts import events
from agentchat.contracts.text_checks import clean_text
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store.event_log import EntryPage, LogEntry
from agentchat.conversations.projections.projection import LoggedFact, Projection
from agentchat.runtime.postgres import Connection

Placed = LogEntry | LoggedFact

_TAGS: Mapping[str, type[events.Fact]] = {events.get_tag(each): each for each in events.EVENTS}


class FactBatch(msgspec.Struct):
    """The facts of a stretch of the log for one projection."""

    facts: list[LoggedFact] = msgspec.field(default_factory=list)
    unreadable: list[tuple[Placed, Exception]] = msgspec.field(default_factory=list)

    def keep_after(self, position: int) -> "FactBatch":
        """Return the facts after `position`."""
        return FactBatch(
            [fact for fact in self.facts if fact.position > position],
            [pair for pair in self.unreadable if pair[0].position > position],
        )


class LogPage(msgspec.Struct, frozen=True):
    """A stretch of the log after `start` up to `end`, with the facts for each read model.

    `is_last` if the log had no more when it was read.
    """

    start: int
    end: int
    is_last: bool
    batches: dict[str, FactBatch]


class ReadableLog(Protocol):
    """The log, or the part of it that is one conversation's."""

    async def read(
        self, after: int, limit: int, *, without: Collection[str] = (), until: int | None = None
    ) -> EntryPage:
        """Read up to `limit` entries after position `after`, in order: see `Log.read`."""


class FactReader:
    """Reads the log for some read models.

    Events that none of them takes are neither sent nor decoded.
    """

    def __init__(self, log: ReadableLog, projections: Sequence[Projection]) -> None:
        self._log = log
        self._projections = tuple(projections)
        self._takers = {tag: tuple(p for p in projections if cls in p.takes) for tag, cls in _TAGS.items()}
        self._unwanted = [tag for tag, takers in self._takers.items() if not takers]

    async def read(
        self, after: int, limit: int, until: int | None = None, names: Collection[str] | None = None
    ) -> LogPage | None:
        """Read up to `limit` entries after position `after`; None if there are none.

        Args:
            after: The position to continue after.
            limit: The most entries to read.
            until: The last position to read, which must be settled.
            names: The read models to collect facts for; all of them by default.

        Raises:
            DatabaseUnavailable: Postgres does not answer.
        """
        entries = await self._log.read(after, limit, without=self._unwanted, until=until)
        if not entries:
            return None
        batches = {each.name: FactBatch() for each in self._projections}
        for entry in entries:
            # An old or unknown tag may be of any type.
            takers = self._takers.get(entry.topic, self._projections)
            if names is not None:
                takers = tuple(each for each in takers if each.name in names)
            if takers:
                _distribute(batches, takers, entry, entry.account_id)
        return LogPage(after, entries[-1].position, entries.is_last, batches)


class RefusedEvent(msgspec.Struct, frozen=True):
    """An event that a projection could not apply, and the reason without its content."""

    position: int
    conversation_id: str
    reason: str


async def apply_batch(conn: Connection, projection: Projection, batch: FactBatch) -> list[RefusedEvent]:
    """Apply facts to the table in the open transaction of `conn`.

    Return those it could not apply.
    """
    refused = [*batch.unreadable, *await _apply_facts(conn, projection, batch.facts)]
    return [RefusedEvent(entry.position, entry.conversation_id, _explain(error)) for entry, error in refused]


async def park_event(conn: Connection, projection: str, refused: RefusedEvent) -> None:
    """Record an event that a read model could not apply."""
    await conn.execute(_PARK, [projection, *msgspec.structs.astuple(refused)])


def _distribute(
    batches: Mapping[str, FactBatch], takers: Sequence[Projection], entry: LogEntry, account_id: str | None
) -> None:
    try:
        if account_id is None:
            raise UnreadableEvent(entry.topic, "the account of its conversation is unknown")  # noqa: TRY301
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


async def _apply_facts(
    conn: Connection, projection: Projection, facts: Sequence[LoggedFact]
) -> list[tuple[Placed, Exception]]:
    """Apply all facts at once; if one is refused, halve the batch to find it."""
    if not facts:
        return []
    try:
        async with conn.transaction():
            for statement, parameters in projection.build_statements(facts):
                await conn.execute(statement, parameters)
    except REFUSALS as error:
        if len(facts) == 1:
            return [(facts[0], error)]
        middle = len(facts) // 2
        return [
            *await _apply_facts(conn, projection, facts[:middle]),
            *await _apply_facts(conn, projection, facts[middle:]),
        ]
    return []


def _explain(error: Exception) -> str:
    """Return the reason; details of the server would repeat the row."""
    message = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return clean_text(message or str(error))[:500]


# Errors of the server or psycopg for a value that does not fit its column.
REFUSALS = (UnreadableEvent, psycopg.DataError, psycopg.IntegrityError, UnicodeError)

_PARK = """
INSERT INTO parked_events (projection, position, conversation_id, reason) VALUES (%s, %s, %s, %s)
ON CONFLICT (projection, position) DO UPDATE SET reason = excluded.reason, at = excluded.at
"""
