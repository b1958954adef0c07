"""Follows the log into projections: a batch, and how far it goes, in one transaction.

Projections that are at the same position share the reading and the transaction; one that lags catches
up on its own and then joins the others. One whose tables are of another version is left as it is, until
somebody has built it again (`rebuilding`).
"""

import contextlib
from collections.abc import AsyncIterator, Sequence

import msgspec
from psycopg import sql

from conversations.event_store.log import Log
from conversations.projections import runs_table, usage_table
from conversations.projections.applying import REFUSALS, FactReader, LogPage, LongErasure, take
from conversations.projections.projection import Projection
from runtime import failpoints
from runtime.logs import get_logger
from runtime.postgres import Connection, Cursor, Pool, connection

BATCH = 500
PIECE = 2000
"""Rows of an erased conversation that one transaction deletes."""
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


class _Moved(Exception):  # noqa: N818 - not an error: another process got there first
    """The position stored is not the one that this process went on from."""


class Follower:
    """Brings projections up to date, a step at a time. Safe next to another: the stored position decides.

    An event that a projection cannot take is parked, loudly, and the others go on. A projection without a
    stored position is emptied and begins here if `reset`; else it is left alone too.
    """

    def __init__(
        self,
        pool: Pool,
        log: Log,
        projections: Sequence[Projection],
        *,
        batch: int = BATCH,
        reset: bool = True,
    ) -> None:
        self._pool = pool
        self._reader = FactReader(log, projections)
        self._projections = projections
        self._reset = reset
        self.batch = batch
        self._positions: dict[str, int] | None = None
        self._look_again = False
        self._logger = get_logger("conversations.follower")

    async def step(self) -> int:
        """Apply the next batch to each projection; returns how many entries there were: less than `batch` at
        the log's end. Raises DatabaseUnavailable.
        """
        positions, self._positions = self._positions, None  # should it fail, what was committed is unknown
        try:
            if positions is None or self._look_again:
                self._look_again = False
                positions = await self._begin()
            found = [await self._step_from(place, positions) for place in sorted(set(positions.values()))]
        except _Moved:
            return self.batch  # there may be more
        self._positions = positions
        return sum(found)

    def look_again(self) -> None:
        """Somebody has built projections again: the next step looks for them."""
        self._look_again = True

    async def _begin(self) -> dict[str, int]:
        """The stored positions of those that are of this version."""
        positions: dict[str, int] = {}
        async with connection(self._pool, seconds=_BATCH_SECONDS) as conn:
            for each in self._projections:
                async with conn.transaction():
                    row = await (await conn.execute(_POSITION, [each.name])).fetchone()
                    if row is None and self._reset:
                        await conn.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(each.name)))
                        await conn.execute("DELETE FROM parked_events WHERE projection = %s", [each.name])
                        await conn.execute(_INSERT, [each.name, each.version])
                        row = (each.version, 0)
                if row is not None and row[0] == each.version:
                    positions[each.name] = row[1]
                else:
                    stored = row[0] if row else None
                    self._logger.info("left_alone", projection=each.name, stored=stored, version=each.version)
        return positions

    async def _step_from(self, position: int, positions: dict[str, int]) -> int:
        page = await self._reader.read(position, self.batch)
        if page is None:
            return 0
        group = [each for each in self._projections if positions.get(each.name) == position]
        for erasure in page.erased:
            await _clear(self._pool, erasure, group)
        async with connection(self._pool, seconds=_BATCH_SECONDS) as conn:
            try:
                await _take_together(conn, group, page)
            except REFUSALS:
                await self._take_each(conn, group, page)
        failpoints.reach("projector-batch-committed")
        for each in group:
            positions[each.name] = page.end
        return page.size

    async def _take_each(self, conn: Connection, group: Sequence[Projection], page: LogPage) -> None:
        """In one transaction too, one after the other: what cannot be taken is found, and parked."""
        async with _batch(conn):
            _check_all(await _advance(conn, group, page), group)
            for each in group:
                for refused in await take(conn, each, page.batches[each.name], each.name):
                    fields = msgspec.structs.asdict(refused)
                    self._logger.error("event_parked", projection=each.name, **fields)


async def _take_together(conn: Connection, group: Sequence[Projection], page: LogPage) -> None:
    """In one round trip, and that of the commit. Raises _Moved, or one of REFUSALS.

    8 statements for a page of one chat, where one by one takes 25 (decision 46).
    """
    pairs = [(each, page.batches[each.name]) for each in group]
    for _, batch in pairs:
        for _, error in batch.unreadable:
            raise error
    statements = [statement for each, batch in pairs for statement in each.statements(batch.facts)]
    async with conn.pipeline() as pipeline, _batch(conn):
        moved = await _advance(conn, group, page)
        for statement, parameters in statements:
            await conn.execute(statement, parameters)
        await pipeline.sync()
        _check_all(moved, group)


async def _clear(pool: Pool, erasure: LongErasure, projections: Sequence[Projection]) -> None:
    """Delete the rows of a long conversation in pieces, before its ConversationErased is taken, which deletes
    the rest: no transaction is long, and after a kill it is done again. It is not listed meanwhile.

    What its runs cost stays, unless its ConversationErased has it merged: then it goes with the runs' rows.
    Raises DatabaseUnavailable.
    """
    merged = erasure.merged and {usage_table.PROJECTION.name, runs_table.PROJECTION.name} <= {
        p.name for p in projections
    }
    for each in projections:
        if each.name == usage_table.PROJECTION.name:
            continue
        with_usage = merged and each.name == runs_table.PROJECTION.name
        statement = (_DELETE_WITH_USAGE if with_usage else _DELETE).format(sql.Identifier(each.name))
        while await _deleted(pool, statement, erasure.conversation_id) == PIECE:
            pass


async def _deleted(pool: Pool, statement: sql.Composed, conversation_id: str) -> int:
    async with connection(pool) as conn:
        return (await conn.execute(statement, {"id": conversation_id, "most": PIECE})).rowcount


@contextlib.asynccontextmanager
async def _batch(conn: Connection) -> AsyncIterator[None]:
    """The transaction of a page."""
    async with conn.transaction():
        yield
        failpoints.reach("projector-in-batch")


async def _advance(conn: Connection, group: Sequence[Projection], page: LogPage) -> Cursor:
    """First of all, as in a swap: who waits for a position then finds the table that belongs to it."""
    names, versions = [each.name for each in group], [each.version for each in group]
    return await conn.execute(_ADVANCE, [page.end, page.start, names, versions])


def _check_all(moved: Cursor, group: Sequence[Projection]) -> None:
    if moved.rowcount != len(group):
        raise _Moved


_POSITION = "SELECT version, position FROM projection_positions WHERE name = %s FOR UPDATE"

_INSERT = "INSERT INTO projection_positions (name, version, position) VALUES (%s, %s, 0)"

_ADVANCE = """
UPDATE projection_positions SET position = %s
 WHERE position = %s AND (name, version) IN (SELECT * FROM unnest(%s::text[], %s::integer[]))
"""

_DELETE = sql.SQL(
    "DELETE FROM {0}"
    " WHERE ctid = ANY (ARRAY(SELECT ctid FROM {0} WHERE conversation_id = %(id)s LIMIT %(most)s))"
)
_DELETE_WITH_USAGE = sql.SQL(
    "WITH gone AS ("
    "  DELETE FROM {0}"
    "   WHERE ctid = ANY (ARRAY(SELECT ctid FROM {0} WHERE conversation_id = %(id)s LIMIT %(most)s))"
    "  RETURNING trace_id),"
    " costs AS (DELETE FROM usage USING gone WHERE usage.trace_id = gone.trace_id)"
    " SELECT FROM gone"
)
