"""Proves the read models: builds them in a scratch schema up to the live position, and compares row by row.

Both sides are read in one snapshot, which holds the positions that the live rows belong to, shard by shard.
What was erased after the lowest is in neither the log nor, soon, the live table, so those conversations are
left out.
"""

from collections.abc import Sequence
from functools import partial

import msgspec
from psycopg import sql

from conversations.database import EVENTS_TABLE, unbounded
from conversations.event_store.log import Log
from conversations.projections.projection import Projection
from conversations.projections.rebuilding import BATCH, Build, Watch, alone
from conversations.projections.shadow import stored_as
from runtime.postgres import Connection, Pool, connection

_COMPARE_SECONDS = 3600.0
_MISSING = "(no such row)"
_THERE = "(a row)"


class TableDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Where live and rebuilt differ first, by key. `column` is None for a row that one lacks."""

    table: str
    key: dict[str, str]
    column: str | None
    live: str | None
    rebuilt: str | None


class Parked(msgspec.Struct, frozen=True, kw_only=True):
    """An event that the live read model, or (`live` False) the one built now, could not take."""

    live: bool
    position: int
    conversation_id: str
    reason: str


class VerifiedReadModel(msgspec.Struct, frozen=True, kw_only=True):
    """One read model as it was at `position`, the lowest of its shards': how many rows are the same, and the
    first that is not.

    `stored` is the version of its tables, None where they were never filled; only those of this program's
    version are compared.
    """

    name: str
    version: int
    stored: int | None
    position: int
    rows: int = 0
    difference: TableDifference | None = None
    parked: tuple[Parked, ...] = ()

    @property
    def ok(self) -> bool:
        """It is what the log says."""
        return self.stored == self.version and self.difference is None


async def verify(
    pool: Pool, log: Log, projections: Sequence[Projection], watch: Watch | None = None, *, batch: int = BATCH
) -> list[VerifiedReadModel]:
    """Compare each; `pool` is to have rebuilding.CONNECTIONS more than these.

    Raises RebuildUnderWay where another process verifies, DatabaseUnavailable.
    """
    build = Build(pool, log, projections, "verifying", watch=watch, batch=batch)

    async def live_position(projection: Projection) -> int:
        async with connection(pool) as conn:
            return min((await _places(conn, projection))[1].values(), default=0)

    async def compare(conn: Connection, projection: Projection) -> VerifiedReadModel:
        await _take_snapshot(conn, projection)
        stored, places = await _places(conn, projection)
        position = min(places.values(), default=0)
        found = VerifiedReadModel(
            name=projection.name, version=projection.version, stored=stored, position=position
        )
        if stored != projection.version:
            return found
        await build.catch_up(conn, projection, places)
        rows, difference = await _compare(conn, projection.name, await _erased_after(pool, position))
        parked = [
            *await _parked(conn, projection.name, True),
            *await _parked(conn, stored_as(projection, "verifying"), False),
        ]
        return msgspec.structs.replace(found, rows=rows, difference=difference, parked=tuple(parked))

    async with alone(pool, "verifying", projections):
        await build.drop()  # what one that was killed has left
        try:
            await build.prepare()
            await build.advance(min([await live_position(each) for each in projections], default=0))
            return [
                await build.end(
                    each,
                    partial(live_position, each),
                    partial(compare, projection=each),
                    seconds=_COMPARE_SECONDS,
                )
                for each in projections
            ]
        finally:
            await build.drop()


async def _take_snapshot(conn: Connection, projection: Projection) -> None:
    """Let the open transaction see both tables, and the live one's position, as they are now."""
    await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    await unbounded(conn)
    # The lock comes before the snapshot: a swap would put another table in this one's place otherwise.
    await conn.execute(
        sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.Identifier("public", projection.name))
    )


async def _places(conn: Connection, projection: Projection) -> tuple[int | None, dict[int, int]]:
    """The version of the live table, and how far each shard is."""
    rows = await (await conn.execute(_PLACES, [projection.name])).fetchall()
    return (rows[0][0] if rows else None), {shard: position for _, shard, position in rows}


async def _erased_after(pool: Pool, position: int) -> list[str]:
    """Outside the snapshot: the log was read after it."""
    async with connection(pool, seconds=_COMPARE_SECONDS) as conn:
        return [row[0] for row in await (await conn.execute(_ERASED, [position])).fetchall()]


async def _parked(conn: Connection, name: str, live: bool) -> list[Parked]:
    rows = await (await conn.execute(_PARKED, [name])).fetchall()
    return [Parked(live=live, position=row[0], conversation_id=row[1], reason=row[2]) for row in rows]


async def _compare(conn: Connection, table: str, erased: Sequence[str]) -> tuple[int, TableDifference | None]:
    """How many rows are the same before the first difference, in the order of the keys' bytes."""
    live, rebuilt = await _columns(conn, "public", table), await _columns(conn, "verifying", table)
    for name in rebuilt | live:
        if live.get(name) != rebuilt.get(name):
            return 0, TableDifference(
                table=table, key={}, column=name, live=live.get(name), rebuilt=rebuilt.get(name)
            )
    key = [row[0] for row in await (await conn.execute(_KEY, [f"verifying.{table}"])).fetchall()]
    names = {
        "live": sql.Identifier("public", table),
        "rebuilt": sql.Identifier("verifying", table),
        "key": _list(key, "{}"),
        "key_texts": _list(key, '{}::text COLLATE "C"'),
        "texts": _list(list(rebuilt), "{}::text"),
    }
    row = await (await conn.execute(_FIRST.format(**names), {"erased": erased})).fetchone()
    asked = {"erased": erased, "first": row and row[0]}
    same = await (await conn.execute(_SAME.format(**names), asked)).fetchone()
    rows = same[0] if same else 0
    if row is None:
        return rows, None
    return rows, _difference(table, dict(zip(key, row[0], strict=True)), list(rebuilt), row[1], row[2])


def _difference(
    table: str, key: dict[str, str], columns: list[str], live: list[str | None], rebuilt: list[str | None]
) -> TableDifference:
    """Of a row that both have, the first column that differs; the list of one that is missing is None."""
    column: str | None = None
    values: list[str | None] = [_THERE if live else _MISSING, _THERE if rebuilt else _MISSING]
    if live and rebuilt:
        column, *values = next(
            each for each in zip(columns, live, rebuilt, strict=True) if each[1] != each[2]
        )
    return TableDifference(table=table, key=key, column=column, live=values[0], rebuilt=values[1])


async def _columns(conn: Connection, schema: str, table: str) -> dict[str, str]:
    """Name to type, in the table's order."""
    return dict(await (await conn.execute(_COLUMNS, [f"{schema}.{table}"])).fetchall())


def _list(names: Sequence[str], form: str) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL(form).format(sql.Identifier(name)) for name in names)


_PLACES = "SELECT version, shard, position FROM read_model_positions WHERE name = %s"

_ERASED = sql.SQL(
    "SELECT originator_id FROM {} WHERE topic = 'conversation_erased.v1' AND notification_id > %s"
).format(sql.Identifier(EVENTS_TABLE))

_PARKED = """
SELECT position, conversation_id, reason FROM parked_events WHERE projection = %s ORDER BY position
"""

_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
 WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""

_KEY = """
SELECT attname FROM pg_index
  JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
 WHERE indrelid = to_regclass(%s) AND indisprimary ORDER BY array_position(indkey::int2[], attnum)
"""

_FIRST = sql.SQL("""
WITH live AS (SELECT {key}, ARRAY[{texts}] AS texts FROM {live} WHERE conversation_id <> ALL (%(erased)s)),
  rebuilt AS (SELECT {key}, ARRAY[{texts}] AS texts FROM {rebuilt} WHERE conversation_id <> ALL (%(erased)s))
SELECT ARRAY[{key_texts}], live.texts, rebuilt.texts FROM live FULL JOIN rebuilt USING ({key})
 WHERE live.texts IS DISTINCT FROM rebuilt.texts ORDER BY {key_texts} LIMIT 1
""")

_SAME = sql.SQL("""
SELECT count(*) FROM {live}
 WHERE conversation_id <> ALL (%(erased)s)
   AND (%(first)s::text[] IS NULL OR ARRAY[{key_texts}] < %(first)s::text[])
""")
