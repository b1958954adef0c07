"""Proves the read models: builds them in a scratch schema up to the live position, and compares row by row.

The live side is one snapshot, which holds the position that its rows belong to. What was erased after that
position is in neither the log nor, soon, the live table, so those conversations are left out on both sides.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence

import msgspec
from psycopg import sql

from conversations.database import EVENTS_TABLE, unbounded
from conversations.event_store.log import Log
from conversations.projections.comparing import TableDifference, compare, different_layout
from conversations.projections.projection import Projection
from conversations.projections.rebuilding import BATCH, Build, Watch, alone
from runtime.postgres import Connection, Pool, connection

_COMPARE_SECONDS = 3600.0


class Parked(msgspec.Struct, frozen=True, kw_only=True):
    """An event that the live read model, or (`live` False) the one built now, could not take."""

    live: bool
    position: int
    conversation_id: str
    reason: str


class VerifiedReadModel(msgspec.Struct, frozen=True, kw_only=True):
    """One read model as it was at `position`: how many rows are the same, and the first that is not.

    `stored` is the version of its tables, None where they were never filled; only those of this program's
    version are compared.
    """

    name: str
    version: int
    stored: int | None
    position: int
    rows: int
    difference: TableDifference | None
    parked: tuple[Parked, ...]

    @property
    def ok(self) -> bool:
        """It is what the log says."""
        return self.stored == self.version and self.difference is None


async def verify(
    pool: Pool, log: Log, projections: Sequence[Projection], *, watch: Watch | None = None, batch: int = BATCH
) -> list[VerifiedReadModel]:
    """Compare each; `pool` is to have rebuilding.CONNECTIONS more than these.

    Raises RebuildUnderWay where another process verifies, DatabaseUnavailable.
    """
    async with alone(pool, "verifying", projections):
        build = Build(pool, log, projections, "verifying", watch=watch, batch=batch)
        await build.drop()  # what one that was killed has left
        try:
            await build.prepare()
            lowest = [await _stored(pool, each) for each in projections]
            await build.advance(min((position for _, position in lowest), default=0))
            return [await _verify(pool, build, each) for each in projections]
        finally:
            await build.drop()


async def _verify(pool: Pool, build: Build, projection: Projection) -> VerifiedReadModel:
    stored, position = await _stored(pool, projection)
    if stored != projection.version:
        return _told(projection, stored, position, 0, None, ())
    async with _snapshot(pool, projection) as live:
        (stored, position) = await _place(live, projection)
        if stored != projection.version:
            return _told(projection, stored, position, 0, None, ())
        await build.advance(position, only=projection)
        async with connection(pool, seconds=_COMPARE_SECONDS) as scratch, scratch.transaction():
            await unbounded(scratch)
            difference = await different_layout(live, scratch, projection.name)
            rows = 0
            if difference is None:
                erased = await _erased_behind(scratch, position)
                rows, difference = await compare(live, scratch, projection.name, erased)
            parked = [*await _parked(live, projection.name, True)]
            parked += await _parked(scratch, f"{projection.name}@verifying", False)
    return _told(projection, stored, position, rows, difference, parked)


def _told(
    projection: Projection,
    stored: int | None,
    position: int,
    rows: int,
    difference: TableDifference | None,
    parked: Sequence[Parked],
) -> VerifiedReadModel:
    return VerifiedReadModel(
        name=projection.name,
        version=projection.version,
        stored=stored,
        position=position,
        rows=rows,
        difference=difference,
        parked=tuple(parked),
    )


async def _stored(pool: Pool, projection: Projection) -> tuple[int | None, int]:
    async with connection(pool) as conn:
        return await _place(conn, projection)


async def _place(conn: Connection, projection: Projection) -> tuple[int | None, int]:
    row = await (await conn.execute(_PLACE, [projection.name])).fetchone()
    return (row[0], row[1]) if row else (None, 0)


@contextlib.asynccontextmanager
async def _snapshot(pool: Pool, projection: Projection) -> AsyncIterator[Connection]:
    """The live table and its position at one moment, for as long as the block takes."""
    async with connection(pool, seconds=_COMPARE_SECONDS) as conn, conn.transaction():
        await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await unbounded(conn)
        # The lock comes before the snapshot: a swap would put another table in this one's place otherwise.
        await conn.execute(
            sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.Identifier(projection.name))
        )
        yield conn


async def _erased_behind(conn: Connection, position: int) -> set[str]:
    return {row[0] for row in await (await conn.execute(_ERASED, [position])).fetchall()}


async def _parked(conn: Connection, name: str, live: bool) -> list[Parked]:
    rows = await (await conn.execute(_PARKED, [name])).fetchall()
    return [Parked(live=live, position=row[0], conversation_id=row[1], reason=row[2]) for row in rows]


_PLACE = "SELECT version, position FROM projection_positions WHERE name = %s"

_ERASED = sql.SQL(
    "SELECT originator_id FROM {} WHERE topic = 'conversation_erased.v1' AND notification_id > %s"
).format(sql.Identifier(EVENTS_TABLE))

_PARKED = """
SELECT position, conversation_id, reason FROM parked_events WHERE projection = %s ORDER BY position
"""
