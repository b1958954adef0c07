"""Define the views that analysts read, in the schema `analytics`, and read their rows for an export."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, LiteralString

import msgspec
from psycopg import sql

from agentchat.conversations.postgres_sessions import lift_time_limits
from agentchat.runtime.postgres import Pool, acquire_connection

View = Literal["runs", "messages", "tool_calls", "feedback", "approvals"]
"""The views that can be exported."""

TIME_COLUMNS: dict[View, str] = {
    "runs": "requested_at",
    "messages": "created_at",
    "tool_calls": "called_at",
    "feedback": "given_at",
    "approvals": "requested_at",
}

TABLES = {
    name: name
    for name in ("conversations", "messages", "runs", "tools", "feedback", "approvals", "usage_by_day")
}
"""The table behind each name. For a new version of a read model, change its table here and add
`build_views()` to the migration step that makes the table."""

_PAGE = 1000
_EXPORT_SECONDS = 30 * 86400.0


def build_views(tables: Mapping[str, str] = TABLES) -> str:
    """Return the SQL that creates the views, or changes them to read other tables."""
    return Path(__file__).with_suffix(".sql").read_text().format_map(tables)


class RowFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The rows to export; None is no condition. `since` is included, `until` is not."""

    since: str | None = None
    until: str | None = None
    account_id: str | None = None
    agent_id: str | None = None
    user_id: str | None = None
    state: str | None = None


class Column(msgspec.Struct, frozen=True):
    """A column of a view, with the name of its type in Postgres, such as `int8`."""

    name: str
    type: str


async def list_columns(pool: Pool, view: View) -> list[Column]:
    """Return the columns of a view in their order. Raises DatabaseUnavailable, psycopg.Error."""
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_COLUMNS, [f"analytics.{view}"])).fetchall()
    return [Column(*row) for row in rows]


async def read_pages(pool: Pool, view: View, wanted: RowFilter) -> AsyncIterator[Sequence[tuple[Any, ...]]]:
    """Yield the rows of a view by a server-side cursor, so that memory does not grow with their number.

    Raises DatabaseUnavailable, psycopg.Error.
    """
    given = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value is not None}
    time = sql.Identifier(TIME_COLUMNS[view])
    terms = [
        sql.SQL(_TERMS.get(name, "{column} = {value}")).format(
            time=time, column=sql.Identifier(name), value=sql.Placeholder(name)
        )
        for name in given
    ]
    query = sql.SQL("SELECT * FROM {} WHERE {}").format(
        sql.Identifier("analytics", view), sql.SQL(" AND ").join([sql.SQL("true"), *terms])
    )
    async with acquire_connection(pool, seconds=_EXPORT_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        async with conn.cursor("export") as cursor:
            await cursor.execute(query, given)
            while page := await cursor.fetchmany(_PAGE):
                yield page


_TERMS: dict[str, LiteralString] = {"since": "{time} >= {value}", "until": "{time} < {value}"}

_COLUMNS = """
SELECT attname, typname FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
 WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
