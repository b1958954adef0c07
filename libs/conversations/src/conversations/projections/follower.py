"""Follows the log into projections: a batch, and how far it goes, in one transaction.

Projections that are at the same position share the reading and the transaction; one that is built anew
catches up on its own and then joins the others.
"""

from collections.abc import Mapping, Sequence

import psycopg
from psycopg import sql

from contracts.text import cleaned
from conversations.database import using
from conversations.errors import UnreadableEvent
from conversations.log import Log, LogEntry
from conversations.owners import Owners
from conversations.projections.projection import LoggedFact, Projection
from runtime.logs import get_logger
from runtime.postgres import Connection, Pool

BATCH = 500
_BATCH_SECONDS = 10.0

TABLES = """
CREATE TABLE projection_positions (
    name text PRIMARY KEY,
    version integer NOT NULL,
    position bigint NOT NULL
);
CREATE TABLE parked_events (
    projection text NOT NULL,
    position bigint NOT NULL,
    conversation_id text NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (projection, position)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON projection_positions, parked_events TO agentchat_service;
"""


_Placed = LogEntry | LoggedFact


class _Moved(Exception):  # noqa: N818 - not an error: another process got there first
    """The position stored is not the one that this process went on from."""


class Follower:
    """Brings projections up to date, a step at a time. Safe beside another: the stored position decides.

    An event that a projection cannot take is parked, loudly, and the others go on.
    """

    def __init__(
        self, pool: Pool, log: Log, projections: Sequence[Projection], *, batch: int = BATCH
    ) -> None:
        self._pool = pool
        self._log = log
        self._owners = Owners(log)
        self._projections = projections
        self.batch = batch
        self._positions: dict[str, int] | None = None
        self._logger = get_logger("conversations.follower")

    async def step(self) -> int:
        """Apply the next batch to each projection; returns how many entries there were: less than `batch` at
        the log's end.

        Raises StoreUnavailable.
        """
        try:
            if self._positions is None:
                self._positions = await self._begin()
            return sum(
                [await self._step_from(position) for position in sorted(set(self._positions.values()))]
            )
        except _Moved:
            self._positions = None
            return self.batch  # there may be more
        except BaseException:
            self._positions = None  # what was committed is unknown
            raise

    async def _begin(self) -> dict[str, int]:
        """The stored positions; a projection of another version is emptied and begins anew."""
        positions: dict[str, int] = {}
        async with using(self._pool, seconds=_BATCH_SECONDS) as conn:
            for each in self._projections:
                async with conn.transaction():
                    cursor = await conn.execute(_POSITION, [each.name])
                    row = await cursor.fetchone()
                    if row is None or row[0] != each.version:
                        await conn.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(each.name)))
                        await conn.execute("DELETE FROM parked_events WHERE projection = %s", [each.name])
                        await conn.execute(_RESET, [each.name, each.version])
                        row = (each.version, 0)
                    positions[each.name] = row[1]
        return positions

    async def _step_from(self, position: int) -> int:
        assert self._positions is not None
        entries = await self._log.read(position, self.batch)
        if not entries:
            return 0
        group = [each for each in self._projections if self._positions[each.name] == position]
        facts, unreadable = _read(entries, await self._owners.of(entries))
        async with using(self._pool, seconds=_BATCH_SECONDS) as conn, conn.transaction():
            for each in group:
                await _advance(conn, each, position, entries[-1].position)
                await self._park(conn, each, unreadable)
                await self._apply(conn, each, facts)
        for each in group:
            self._positions[each.name] = entries[-1].position
        return len(entries)

    async def _apply(self, conn: Connection, projection: Projection, facts: Sequence[LoggedFact]) -> None:
        """All at once; if one of them cannot be taken, one by one, to find it."""
        try:
            async with conn.transaction():
                await projection.apply(conn, facts)
        except _REFUSALS as error:
            if len(facts) == 1:
                await self._park(conn, projection, [(facts[0], error)])
                return
            for fact in facts:
                await self._apply(conn, projection, [fact])

    async def _park(
        self, conn: Connection, projection: Projection, refused: Sequence[tuple[_Placed, Exception]]
    ) -> None:
        for entry, error in refused:
            reason = cleaned(str(error))[:500]
            self._logger.error(
                "event_parked",
                projection=projection.name,
                position=entry.position,
                conversation_id=entry.conversation_id,
                reason=reason,
            )
            parked = [projection.name, entry.position, entry.conversation_id, reason]
            await conn.execute(_PARK, parked)


def _read(
    entries: Sequence[LogEntry], accounts: Mapping[str, str]
) -> tuple[list[LoggedFact], list[tuple[_Placed, Exception]]]:
    facts: list[LoggedFact] = []
    unreadable: list[tuple[_Placed, Exception]] = []
    for entry in entries:
        account_id = accounts.get(entry.conversation_id)
        if account_id is None:
            error = UnreadableEvent(entry.topic, "nothing says whose its conversation is")
            unreadable.append((entry, error))
            continue
        try:
            facts.append(LoggedFact(entry.position, entry.conversation_id, account_id, entry.event))
        except UnreadableEvent as error:
            unreadable.append((entry, error))
    return facts, unreadable


async def _advance(conn: Connection, projection: Projection, start: int, end: int) -> None:
    cursor = await conn.execute(_ADVANCE, [end, projection.name, projection.version, start])
    if cursor.rowcount != 1:
        raise _Moved


# What the server or psycopg says of a value that does not fit its column.
_REFUSALS = (psycopg.DataError, psycopg.IntegrityError, UnicodeError)

_POSITION = "SELECT version, position FROM projection_positions WHERE name = %s FOR UPDATE"

_RESET = """
INSERT INTO projection_positions (name, version, position) VALUES (%s, %s, 0)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, position = 0
"""

_ADVANCE = """
UPDATE projection_positions SET position = %s WHERE name = %s AND version = %s AND position = %s
"""

_PARK = """
INSERT INTO parked_events (projection, position, conversation_id, reason) VALUES (%s, %s, %s, %s)
ON CONFLICT (projection, position) DO UPDATE SET reason = excluded.reason, at = excluded.at
"""
