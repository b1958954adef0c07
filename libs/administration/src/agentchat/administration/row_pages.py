"""Read rows as structs and pages."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from agentchat.administration.admin_values import Page
from agentchat.administration.query_parameters import MOST_PAGE
from agentchat.contracts.admin_errors import Invalid, NotFound
from agentchat.contracts.text_checks import is_line
from agentchat.conversations.queries.sorted_list import RowPage
from agentchat.runtime.postgres import Connection

S = TypeVar("S", bound=msgspec.Struct)

MOST_NAME = 200


async def fetch_all(
    conn: Connection, kind: type[S], query: str, parameters: Sequence[Any] | Mapping[str, Any]
) -> list[S]:
    """Fetch rows as structs; the columns are in the order of the fields."""
    cursor = await conn.execute(query, parameters)
    fields = kind.__struct_fields__
    return [kind(**dict(zip(fields, row, strict=True))) for row in await cursor.fetchall()]


async def find_row(
    conn: Connection,
    kind: type[S],
    query: str,
    parameters: Sequence[Any] | Mapping[str, Any],
    what: str,
    name: str,
) -> S:
    """Fetch the first row as a struct. Raises NotFound, of a `what` with this name."""
    found = await fetch_all(conn, kind, query, parameters)
    if not found:
        raise NotFound(what, name)
    return found[0]


async def fetch_page(
    conn: Connection, kind: type[S], query: str, asked: Mapping[str, Any], limit: int, *, by: str = "id"
) -> Page[S]:
    """Fetch a page of `query`, which has no LIMIT and is ordered by the field `by`. Raises Invalid."""
    rows = await fetch_all(conn, kind, f"{query} LIMIT %(rows)s", {**asked, "rows": count_rows(limit)})
    return build_page(rows, limit, by=by)


def count_rows(limit: int) -> int:
    """Return the number of rows to query: one more than the page, to see if more follow. Raises Invalid."""
    if not 1 <= limit <= MOST_PAGE:
        raise Invalid("limit", f"must be from 1 to {MOST_PAGE}")
    return limit + 1


def build_page(rows: Sequence[S], limit: int, *, by: str = "id") -> Page[S]:
    """Build a page of `count_rows(limit)` rows; its `after` is the last item's field `by`."""
    after = str(getattr(rows[limit - 1], by)) if len(rows) > limit else None
    return Page(items=tuple(rows[:limit]), after=after)


def build_sorted_page(found: RowPage[S], limit: int) -> Page[S]:
    """Build a page of `count_rows(limit)` rows of a sorted list."""
    return Page(
        items=tuple(found.rows[:limit]),
        after=found.places[limit - 1] if len(found.rows) > limit else None,
        total=None if found.total is None else found.total.count,
        is_total_exact=found.total is None or found.total.is_exact,
    )


def normalize_name(name: str, *, least: int = 1) -> str:
    """Collapse the white space of a name and check its length, `least` to 200. Raises Invalid."""
    name = " ".join(name.split())
    if not least <= len(name) <= MOST_NAME:
        raise Invalid("name", f"must have {least} to {MOST_NAME} characters")
    if not is_line(name):
        raise Invalid("name", "holds control characters or lone surrogates")
    return name
