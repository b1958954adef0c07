"""Rebuild read models from the log, and compare the live ones with them or correct them.

The read models are built in temporary tables of one session, in pages of the log, while services continue.
The end is one transaction, which brings a temporary table to the position of the live one: `verify` compares
both in one snapshot, `rebuild` holds the live position and replaces the rows that differ. A command that is
killed leaves nothing behind. Rows without a conversation are left alone: they outlive the log (`runs_table`).
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import LiteralString

import msgspec
import psycopg
from psycopg import sql

from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.postgres_sessions import EVENTS_TABLE, lift_time_limits
from agentchat.conversations.projections.apply_facts import (
    FactBatch,
    FactReader,
    ReadableLog,
    RefusedEvent,
    apply_batch,
    park_event,
)
from agentchat.conversations.projections.one_conversation import OneConversation
from agentchat.conversations.projections.projection import Projection, Sums
from agentchat.runtime.postgres import Connection, Pool, acquire_connection

BATCH = 5000
CONNECTIONS = 3
"""Connections that a rebuild or a verification takes from its pool."""

_SESSION_SECONDS = 30 * 86400.0
_ERASED_SECONDS = 60.0


class RebuildProgress:
    """Receives the progress of a build; this one ignores it."""

    def on_advance(self, position: int, head: int) -> None:
        """Report that all are built up to `position` of a log that ends at `head`."""

    def on_park(self, name: str, refused: RefusedEvent) -> None:
        """Report an event that a read model could not apply."""


class TableDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference between the live and the rebuilt table, by key.

    `column` is None if one of the tables lacks the row.
    """

    table: str
    key: dict[str, str]
    column: str | None
    live: str | None
    rebuilt: str | None


class ParkedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that the live read model, or (`live` False) the one built now, could not apply."""

    live: bool
    position: int
    conversation_id: str
    reason: str


class VerifiedReadModel(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of one read model at `position`.

    Its number of live rows, and the first difference. `position` is None for a read model that no projector
    has begun to fill.
    """

    name: str
    position: int | None
    rows: int = 0
    difference: TableDifference | None = None
    parked: tuple[ParkedEvent, ...] = ()

    @property
    def ok(self) -> bool:
        """Return True if the live table agrees with the log."""
        return self.position is not None and self.difference is None


class Builder:
    """Read models in temporary tables of the session `conn`."""

    def __init__(
        self,
        conn: Connection,
        log: ReadableLog,
        projections: Sequence[Projection],
        watch: RebuildProgress | None,
        batch: int,
    ) -> None:
        self.conn = conn
        self.projections = projections
        self.positions = {each.name: 0 for each in projections}
        self.refused: dict[str, list[RefusedEvent]] = {each.name: [] for each in projections}
        self._reader = FactReader(log, projections)
        self._watch = watch or RebuildProgress()
        self._batch = batch

    async def create_tables(self) -> None:
        """Create the temporary tables."""
        async with self.conn.transaction():
            await self.conn.execute("SET LOCAL search_path TO pg_temp, public")
            for each in self.projections:
                await self.conn.execute(each.tables.encode())

    async def advance(self, until: int) -> None:
        """Build all of them up to `until`, a settled position, one page a transaction."""
        position = min(self.positions.values())
        while page := await self._reader.read(position, self._batch, until):
            async with self.conn.transaction():
                await lift_time_limits(self.conn)
                for each in self.projections:
                    await self._take(each, page.batches[each.name].keep_after(self.positions[each.name]))
            self.positions = dict.fromkeys(self.positions, page.end)
            position = page.end
            self._watch.on_advance(position, until)

    async def catch_up(self, projection: Projection, until: int) -> None:
        """Build one of them up to `until` in the open transaction."""
        name = projection.name
        while page := await self._reader.read(self.positions[name], self._batch, until, (name,)):
            await self._take(projection, page.batches[name])
            self.positions[name] = page.end

    async def _take(self, projection: Projection, batch: FactBatch) -> None:
        for refused in await apply_batch(self.conn, projection, batch):
            self.refused[projection.name].append(refused)
            self._watch.on_park(projection.name, refused)


async def verify(
    pool: Pool,
    log: Log,
    projections: Sequence[Projection],
    watch: RebuildProgress | None = None,
    *,
    conversation_id: str | None = None,
    batch: int = BATCH,
) -> list[VerifiedReadModel]:
    """Compare read models with the log, row by row: all rows, or those of one conversation.

    Changes nothing. `pool` needs CONNECTIONS connections. Raises DatabaseUnavailable, UnknownConversation.
    """
    source = log if conversation_id is None else await OneConversation.find(log, conversation_id)
    async with _open_builder(pool, source, projections, watch, batch) as builder:
        live = await _read_positions(builder.conn, projections)
        await builder.advance(min(live.values(), default=0))
        return [await _verify_one(pool, builder, each, conversation_id) for each in projections]


async def rebuild(
    pool: Pool,
    log: Log,
    projections: Sequence[Projection],
    watch: RebuildProgress | None = None,
    *,
    batch: int = BATCH,
) -> int:
    """Rebuild read models and correct the live ones; return the lowest position of these.

    While rows are replaced nobody can follow the log into that table, and readers see the old rows. `pool`
    needs CONNECTIONS connections. Raises DatabaseUnavailable.
    """
    async with _open_builder(pool, log, projections, watch, batch) as builder:
        await builder.advance(await log.read_settled_position())
        return min([await _replace_one(builder, each) for each in projections], default=0)


@contextlib.asynccontextmanager
async def _open_builder(
    pool: Pool, log: ReadableLog, projections: Sequence[Projection], watch: RebuildProgress | None, batch: int
) -> AsyncIterator[Builder]:
    async with acquire_connection(pool, seconds=_SESSION_SECONDS) as conn:
        prepare_threshold = conn.prepare_threshold
        # A statement prepared before would still use the live table.
        conn.prepare_threshold = None
        try:
            builder = Builder(conn, log, projections, watch, batch)
            await builder.create_tables()
            yield builder
        finally:
            with contextlib.suppress(psycopg.Error):  # the session, and its tables, may be gone
                await conn.execute("DISCARD TEMP")
            conn.prepare_threshold = prepare_threshold


async def _verify_one(
    pool: Pool, builder: Builder, projection: Projection, conversation_id: str | None
) -> VerifiedReadModel:
    conn, name = builder.conn, projection.name
    async with conn.transaction():
        await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await lift_time_limits(conn)
        position = (await _read_positions(conn, [projection])).get(name)
        if position is None:
            return VerifiedReadModel(name=name, position=None)
        await builder.catch_up(projection, position)
        # Conversations erased after the snapshot are missing in the log and soon in the live table.
        erased = await _list_erased_after(pool, position)
        rows, difference = await _compare(conn, name, erased, conversation_id)
        if difference is None and projection.sums is not None and conversation_id is None:
            difference = await _compare_sums(conn, projection.name, projection.sums)
        live = await (await conn.execute(_PARKED, [name, conversation_id])).fetchall()
        parked = [
            ParkedEvent(live=True, position=at, conversation_id=id_, reason=reason)
            for at, id_, reason in live
        ]
        parked += [ParkedEvent(live=False, **msgspec.structs.asdict(each)) for each in builder.refused[name]]
        return VerifiedReadModel(
            name=name, position=position, rows=rows, difference=difference, parked=tuple(parked)
        )


async def _replace_one(builder: Builder, projection: Projection) -> int:
    conn, name = builder.conn, projection.name
    async with conn.transaction():
        await lift_time_limits(conn)
        await conn.execute("INSERT INTO projection_positions VALUES (%s, 0) ON CONFLICT DO NOTHING", [name])
        row = await (await conn.execute(_LOCK_POSITION, [name])).fetchone()
        assert row is not None, "it has just been stored"
        position = max(int(row[0]), builder.positions[name])
        await builder.catch_up(projection, position)
        query = await _build_query(conn, name)
        await conn.execute(sql.SQL(_DELETE_DIFFERENT).format(**query))
        await conn.execute(sql.SQL(_INSERT_DIFFERENT).format(**query))
        if projection.sums is not None:
            table, rows = _build_sums_query(name, projection.sums)
            await conn.execute(sql.SQL("DELETE FROM {}").format(table))
            await conn.execute(sql.SQL("INSERT INTO {} {}").format(table, rows))
        await conn.execute("DELETE FROM parked_events WHERE projection = %s", [name])
        for refused in builder.refused[name]:
            await park_event(conn, name, refused)
        await conn.execute("UPDATE projection_positions SET position = %s WHERE name = %s", [position, name])
    return position


async def _read_positions(conn: Connection, projections: Sequence[Projection]) -> dict[str, int]:
    names = [each.name for each in projections]
    return dict(await (await conn.execute(_POSITIONS, [names])).fetchall())


async def _list_erased_after(pool: Pool, position: int) -> list[str]:
    async with acquire_connection(pool, seconds=_ERASED_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        return [row[0] for row in await (await conn.execute(_ERASED, [position])).fetchall()]


async def _compare(
    conn: Connection, table: str, erased: Sequence[str], conversation_id: str | None
) -> tuple[int, TableDifference | None]:
    """Count the live rows, and find the first difference in the order of the keys' bytes."""
    live, rebuilt = await _read_columns(conn, "public", table), await _read_columns(conn, "pg_temp", table)
    for name in rebuilt | live:
        if live.get(name) != rebuilt.get(name):
            return 0, TableDifference(
                table=table, key={}, column=name, live=live.get(name), rebuilt=rebuilt.get(name)
            )
    query, key = await _build_query(conn, table), await _read_key(conn, f"pg_temp.{table}")
    given = {"erased": erased, "conversation": conversation_id}
    query["wanted"] = sql.SQL("" if conversation_id is None else " AND conversation_id = %(conversation)s")
    counted = await (await conn.execute(sql.SQL(_COUNT).format(**query), given)).fetchone()
    rows = counted[0] if counted else 0
    different = await (await conn.execute(sql.SQL(_FIRST).format(**query), given)).fetchone()
    if different is None:
        return rows, None
    found = []
    for side in ("live", "rebuilt"):
        statement = sql.SQL(_ROW).format(**query | {"table": query[side]})
        row = await (await conn.execute(statement, different)).fetchone()
        found.append(None if row is None else dict(zip(live, row[0], strict=True)))
    return rows, _build_difference(table, dict(zip(key, different[0], strict=True)), *found)


async def _compare_sums(conn: Connection, name: str, sums: Sums) -> TableDifference | None:
    """Find a row of the sums that the live read model does not add up to."""
    table, rows = _build_sums_query(name, sums)
    keys = await _read_key(conn, f"public.{sums.table}")
    query = {"table": table, "rows": rows, "key_texts": _join_names(keys, "{}::text")}
    different = await (await conn.execute(sql.SQL(_FIRST_SUM).format(**query))).fetchone()
    if different is None:
        return None
    key = dict(zip(keys, different[0], strict=True))
    return TableDifference(
        table=sums.table, key=key, column=None, live="(other sums)", rebuilt="(its rows' sums)"
    )


def _build_sums_query(name: str, sums: Sums) -> tuple[sql.Composable, sql.Composable]:
    return sql.Identifier("public", sums.table), sql.SQL(sums.query).format(
        **{name: sql.Identifier("public", name)}
    )


def _build_difference(
    table: str, key: dict[str, str], live: dict[str, str | None] | None, rebuilt: dict[str, str | None] | None
) -> TableDifference:
    if live is None or rebuilt is None:
        shown = ["(no such row)" if row is None else "(a row)" for row in (live, rebuilt)]
        return TableDifference(table=table, key=key, column=None, live=shown[0], rebuilt=shown[1])
    column = next(name for name in live if live[name] != rebuilt[name])
    return TableDifference(table=table, key=key, column=column, live=live[column], rebuilt=rebuilt[column])


async def _build_query(conn: Connection, table: str) -> dict[str, sql.Composable]:
    """Return what the statements below name: both tables, their key, and their columns."""
    key, columns = await _read_key(conn, f"pg_temp.{table}"), await _read_columns(conn, "pg_temp", table)
    return {
        "live": sql.Identifier("public", table),
        "rebuilt": sql.Identifier("pg_temp", table),
        "key": _join_names(key, "{}"),
        "key_texts": _join_names(key, '{}::text COLLATE "C"'),
        "columns": _join_names(list(columns), "{}"),
        "texts": _join_names(list(columns), "{}::text"),
    }


async def _read_key(conn: Connection, table: str) -> list[str]:
    return [row[0] for row in await (await conn.execute(_KEY, [table])).fetchall()]


async def _read_columns(conn: Connection, schema: str, table: str) -> dict[str, str]:
    """Return the type of each column that is stored, and not generated from others."""
    return dict(await (await conn.execute(_COLUMNS, [f"{schema}.{table}"])).fetchall())


def _join_names(names: Sequence[str], form: LiteralString) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL(form).format(sql.Identifier(name)) for name in names)


_POSITIONS = "SELECT name, position FROM projection_positions WHERE name = ANY(%s)"

_LOCK_POSITION = "SELECT position FROM projection_positions WHERE name = %s FOR UPDATE"

_ERASED = sql.SQL(
    "SELECT originator_id FROM {} WHERE topic = 'conversation_erased.v1' AND notification_id > %s"
).format(sql.Identifier(EVENTS_TABLE))

_PARKED = """
SELECT position, conversation_id, reason FROM parked_events
 WHERE projection = %s AND conversation_id = coalesce(%s::text, conversation_id) ORDER BY position
"""

_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
 WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""

_KEY = """
SELECT attname FROM pg_index
  JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
 WHERE indrelid = to_regclass(%s) AND indisprimary ORDER BY array_position(indkey::int2[], attnum)
"""

_COUNT: LiteralString = """
SELECT count(*) FROM {live} WHERE conversation_id IS NOT NULL AND conversation_id <> ALL (%(erased)s){wanted}
"""

_FIRST: LiteralString = """
SELECT ARRAY[{key_texts}] FROM (
    (SELECT {columns} FROM {live} EXCEPT SELECT {columns} FROM {rebuilt})
     UNION ALL
    (SELECT {columns} FROM {rebuilt} EXCEPT SELECT {columns} FROM {live})
) AS different
 WHERE conversation_id IS NOT NULL AND conversation_id <> ALL (%(erased)s){wanted}
 ORDER BY {key_texts} LIMIT 1
"""

_FIRST_SUM: LiteralString = """
WITH counted AS (SELECT * FROM {table} WHERE false UNION ALL {rows})
SELECT ARRAY[{key_texts}] FROM (
    (TABLE {table} EXCEPT TABLE counted) UNION ALL (TABLE counted EXCEPT TABLE {table})
) AS different ORDER BY {key_texts} LIMIT 1
"""

_ROW: LiteralString = "SELECT ARRAY[{texts}] FROM {table} WHERE ARRAY[{key_texts}] = %s::text[]"

_DELETE_DIFFERENT: LiteralString = """
DELETE FROM {live} WHERE ({key}) IN (
    SELECT {key} FROM (SELECT {columns} FROM {live} EXCEPT SELECT {columns} FROM {rebuilt}) AS different
     WHERE conversation_id IS NOT NULL)
"""

_INSERT_DIFFERENT: LiteralString = """
INSERT INTO {live} ({columns})
SELECT {columns} FROM {rebuilt} WHERE conversation_id IS NOT NULL EXCEPT SELECT {columns} FROM {live}
"""
