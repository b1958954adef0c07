"""Sort the rows of a read model by a column, page through them by keys, and count them.

A list in the order of its last activity reads an index. Most other orders sort the `MOST` newest rows that
match, so that a page of a large table costs no more than one of a small table.
"""

import re
from collections.abc import Mapping
from typing import Any, Generic, Literal, LiteralString, TypeVar

import msgspec
from psycopg import sql

from agentchat.runtime.postgres import Connection

T = TypeVar("T")

MOST = 10_000
"""The largest number of rows that are counted, sorted without an index, or exported."""

ACTIVITY = "last_activity"
"""The column that a list is sorted by if none is named."""

_ASCENDING = ":asc"
_NUMBER = re.compile(r"-?[0-9]{1,100}(\.[0-9]{1,100})?")


class SortKey(msgspec.Struct, frozen=True):
    """The SQL of a column to sort by, which is never null, and the type of its values.

    With an index all rows are sorted, else the newest.
    """

    expression: LiteralString
    kind: Literal["text", "numeric"] = "numeric"
    has_index: bool = False


class SortOrder(msgspec.Struct, frozen=True):
    """A column to sort by, the greatest first unless `ascending`."""

    column: str = ACTIVITY
    ascending: bool = False

    @classmethod
    def parse(cls, text: str) -> "SortOrder":
        """Parse `cost`, or `cost:asc` for the least first."""
        return cls(text.removesuffix(_ASCENDING), text.endswith(_ASCENDING))

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return f"{self.column}{_ASCENDING if self.ascending else ''}"


BY_ACTIVITY = SortOrder()


class RowCount(msgspec.Struct, frozen=True):
    """A number of rows; if not `is_exact`, there are more."""

    count: int
    is_exact: bool = True


class RowPage(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a list: its rows, their places in the order, and how many match, if that was counted."""

    rows: list[T]
    places: list[str]
    total: RowCount | None = None


class SortedList(msgspec.Struct, frozen=True, kw_only=True):
    """A read model as a list: its table with an alias, the columns of a row, a unique id, and sort keys."""

    table: LiteralString
    alias: LiteralString
    columns: LiteralString
    id: LiteralString
    keys: Mapping[str, SortKey]

    async def fetch_page(
        self,
        conn: Connection,
        conditions: sql.Composable,
        values: Mapping[str, Any],
        *,
        order: SortOrder,
        after: str | None,
        limit: int,
        counts: bool = False,
    ) -> RowPage[tuple[Any, ...]]:
        """Fetch up to `limit` rows in an order, and count all that match if it `counts`.

        `conditions` are joined by AND. `after` is the place of the last row of the page before. Raises
        ValueError for a text that is no place, psycopg.Error.
        """
        key = self.keys[order.column]
        place: dict[str, str] = {}
        follows: sql.Composable = sql.SQL("")
        if after is not None:
            place = parse_place(after, key)
            follows = _FOLLOWS.format(kind=sql.SQL(key.kind), sign=sql.SQL(">" if order.ascending else "<"))
        query = (_BY_INDEX if key.has_index else _BY_COLUMN).format(
            table=sql.SQL(self.table),
            alias=sql.SQL(self.alias),
            id=sql.SQL(self.id),
            activity=sql.SQL(self.keys[ACTIVITY].expression),
            conditions=conditions,
            key=sql.SQL(key.expression),
            columns=sql.SQL(self.columns),
            direction=sql.SQL("ASC" if order.ascending else "DESC"),
            follows=follows,
        )
        looked_at = MOST + 1 if counts or not key.has_index else 0
        asked = {**values, **place, "limit": limit, "looked_at": looked_at}
        found = await (await conn.execute(query, asked)).fetchall()
        matching = found[0][-2] if found else 0
        return RowPage(
            rows=[row[:-2] for row in found],
            places=[row[-1] for row in found],
            total=RowCount(min(matching, MOST), matching <= MOST) if counts else None,
        )


def parse_place(text: str, key: SortKey) -> dict[str, str]:
    """Parse a place in an order into the values of a query. Raises ValueError."""
    try:
        value, row_id = msgspec.json.decode(text, type=tuple[str, str])
    except msgspec.DecodeError:
        value = row_id = "\0"
    if "\0" in value + row_id or not (key.kind == "text" or _NUMBER.fullmatch(value)):
        raise ValueError(f"not a place in a list: {text[:100]}")
    return {"place": value, "place_id": row_id}


_FOLLOWS = sql.SQL(" AND (sort_key, row_id) {sign} (%(place)s::{kind}, %(place_id)s::text)")

# Only ids and keys are sorted and counted; the other columns are read for the rows of the page.

_BY_INDEX = sql.SQL("""
WITH matches AS MATERIALIZED (
     SELECT {id} AS row_id, {key} AS sort_key FROM {table} AS {alias} WHERE {conditions} LIMIT %(looked_at)s
), counted AS MATERIALIZED (
     SELECT count(*) AS matching FROM matches
), page AS (
     (SELECT row_id, sort_key FROM matches
       WHERE (SELECT matching FROM counted) < %(looked_at)s{follows}
       ORDER BY sort_key {direction}, row_id {direction} LIMIT %(limit)s)
     UNION ALL
     (SELECT row_id, sort_key
        FROM (SELECT {id} AS row_id, {key} AS sort_key FROM {table} AS {alias} WHERE {conditions}) AS keys
       WHERE (SELECT matching FROM counted) >= %(looked_at)s{follows}
       ORDER BY sort_key {direction}, row_id {direction} LIMIT %(limit)s)
)
SELECT {columns}, (SELECT matching FROM counted), json_build_array(sort_key::text, row_id)::text
  FROM page JOIN {table} AS {alias} ON {id} = row_id
 ORDER BY sort_key {direction}, row_id {direction}
""")
"""Count matching rows in any order. Take the page from them if they are few, else from the index."""

_BY_COLUMN = sql.SQL("""
WITH page AS (
     SELECT *
       FROM (SELECT row_id, sort_key, count(*) OVER () AS matching
               FROM (SELECT {id} AS row_id, {key} AS sort_key FROM {table} AS {alias} WHERE {conditions}
                      ORDER BY {activity} DESC, {id} DESC LIMIT %(looked_at)s) AS newest) AS counted
      WHERE TRUE{follows}
      ORDER BY sort_key {direction}, row_id {direction} LIMIT %(limit)s
)
SELECT {columns}, matching, json_build_array(sort_key::text, row_id)::text
  FROM page JOIN {table} AS {alias} ON {id} = row_id
 ORDER BY sort_key {direction}, row_id {direction}
""")
