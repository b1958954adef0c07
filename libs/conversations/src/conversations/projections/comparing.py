"""Two tables of one read model, side by side: a hash a row, and of the first that differs the column."""

from collections.abc import AsyncIterator, Collection

import msgspec
from psycopg import sql

from runtime.postgres import Connection

_LIVE, _SCRATCH = "public", "verifying"
_FETCH = 2000
_MISSING = "(no such row)"
_THERE = "(a row)"


class TableDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Where live and rebuilt differ first, by key. `column` is None for a row that one lacks."""

    table: str
    key: dict[str, str]
    column: str | None
    live: str | None
    rebuilt: str | None


class _Row(msgspec.Struct, frozen=True):
    key: list[str]
    digest: bytes


async def different_layout(live: Connection, scratch: Connection, table: str) -> TableDifference | None:
    """The first column that is not the same in both, by name and type."""
    ours, theirs = await _columns(live, _LIVE, table), await _columns(scratch, _SCRATCH, table)
    for name in [*theirs, *(each for each in ours if each not in theirs)]:
        if ours.get(name) != theirs.get(name):
            return TableDifference(
                table=table, key={}, column=name, live=ours.get(name), rebuilt=theirs.get(name)
            )
    return None


async def compare(
    live: Connection, scratch: Connection, table: str, without: Collection[str]
) -> tuple[int, TableDifference | None]:
    """How many rows are the same before the first difference; conversations in `without` are passed over.

    Both connections are in a transaction. The columns are the same in both.
    """
    columns, key = list(await _columns(scratch, _SCRATCH, table)), await _key(scratch, table)
    ours = _rows(live, _LIVE, table, columns, key, without)
    theirs = _rows(scratch, _SCRATCH, table, columns, key, without)
    count = 0
    one, other = await anext(ours, None), await anext(theirs, None)
    while one is not None and other is not None and one == other:
        count += 1
        one, other = await anext(ours, None), await anext(theirs, None)
    if one is None and other is None:
        return count, None
    first = min(row.key for row in (one, other) if row is not None)
    named = dict(zip(key, first, strict=True))
    found = [await _row(live, _LIVE, table, named), await _row(scratch, _SCRATCH, table, named)]
    return count, _difference(table, columns, named, found[0], found[1])


def _difference(
    table: str,
    columns: list[str],
    key: dict[str, str],
    live: dict[str, str | None],
    rebuilt: dict[str, str | None],
) -> TableDifference:
    if not live or not rebuilt:
        return TableDifference(
            table=table,
            key=key,
            column=None,
            live=_THERE if live else _MISSING,
            rebuilt=_THERE if rebuilt else _MISSING,
        )
    column = next(name for name in columns if live[name] != rebuilt[name])
    return TableDifference(table=table, key=key, column=column, live=live[column], rebuilt=rebuilt[column])


async def _rows(
    conn: Connection, schema: str, table: str, columns: list[str], key: list[str], without: Collection[str]
) -> AsyncIterator[_Row]:
    """In the order of their keys' bytes, which is that of Python's strings too."""
    query = sql.SQL(
        "SELECT ARRAY[{key}], sha256(convert_to(ROW({columns})::text, 'UTF8')) FROM {table}"
        " WHERE NOT conversation_id = ANY(%s) ORDER BY {order}"
    ).format(
        key=_list(key, "{}::text"),
        columns=_list(columns, "{}"),
        table=sql.Identifier(schema, table),
        order=_list(key, '{}::text COLLATE "C"'),
    )
    async with conn.cursor(name=f"compared_{schema}", binary=True) as cursor:
        cursor.itersize = _FETCH
        await cursor.execute(query, [list(without)])
        async for row in cursor:
            yield _Row(row[0], bytes(row[1]))


async def _row(conn: Connection, schema: str, table: str, key: dict[str, str]) -> dict[str, str | None]:
    """Its columns as text; empty if there is no such row."""
    query = sql.SQL("SELECT * FROM {} WHERE {}").format(
        sql.Identifier(schema, table),
        sql.SQL(" AND ").join(sql.SQL("{}::text = %s").format(sql.Identifier(name)) for name in key),
    )
    columns = await _columns(conn, schema, table)
    shown = sql.SQL("SELECT {} FROM ({}) AS found").format(_list(list(columns), "{}::text"), query)
    row = await (await conn.execute(shown, list(key.values()))).fetchone()
    return dict(zip(columns, row, strict=True)) if row else {}


async def _columns(conn: Connection, schema: str, table: str) -> dict[str, str]:
    """Name to type, in the table's order."""
    return dict(await (await conn.execute(_COLUMNS, [f"{schema}.{table}"])).fetchall())


async def _key(conn: Connection, table: str) -> list[str]:
    rows = await (await conn.execute(_KEY, [f"{_SCRATCH}.{table}"])).fetchall()
    return [row[0] for row in rows]


def _list(names: list[str], form: str) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL(form).format(sql.Identifier(name)) for name in names)


_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
 WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""

_KEY = """
SELECT attname FROM pg_index
  JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)
 WHERE indrelid = to_regclass(%s) AND indisprimary ORDER BY array_position(indkey::int2[], attnum)
"""
