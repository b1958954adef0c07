"""Read rows as structs and pages, and write changes with their audit rows."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from psycopg import sql

from agentchat.administration.admin_values import Page
from agentchat.administration.parameters import MOST_PAGE
from agentchat.contracts.admin_errors import Invalid, NotFound
from agentchat.contracts.text import is_line
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


async def record(
    conn: Connection,
    actor: str,
    action: str,
    kind: str,
    subject: str,
    *,
    name: str | None = None,
    before: Any = None,
    after: Any = None,
) -> None:
    """Add an audit row, in the caller's transaction: JSON values or structs, and no secrets.

    `name` is the subject's at this time; without it the `name` of `before` or `after`, else that of the
    account that they name with `account_id`.
    """
    name = name or _get_text(before, "name") or _get_text(after, "name")
    account_id = _get_text(before, "account_id") or _get_text(after, "account_id")
    shown = _encode(before), _encode(after)
    await conn.execute(_RECORD, [actor, action, kind, subject, name, account_id, *shown])


def _get_text(value: Any, name: str) -> str | None:
    found = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return found if isinstance(found, str) and found else None


async def write(conn: Connection, actor: str, kind: str, before: S, given: Mapping[str, Any]) -> S:
    """Give a row of this kind the values `given`, with audit rows of the fields that change; returns it.

    Its first field is its id, the others are named as their columns are. Being disabled or enabled has an
    audit row of its own. Nothing is written if nothing changes.
    """
    after = msgspec.structs.replace(before, **given)
    names = [name for name in after.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    if names:
        table, key = map(sql.Identifier, _TABLES[kind])
        changes = sql.SQL(", ").join(
            _DISABLED
            if name == "disabled"
            else sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name))
            for name in names
        )
        update = sql.SQL("UPDATE {} SET {} WHERE {} = {}").format(
            table, changes, key, sql.Placeholder(after.__struct_fields__[0])
        )
        await conn.execute(update, msgspec.structs.asdict(after))
    switch = "disable" if getattr(after, "disabled", False) else "enable"
    rows = {
        "change": [name for name in names if name != "disabled"],
        switch: [name for name in names if name == "disabled"],
    }
    subject = getattr(after, after.__struct_fields__[0])
    for action, fields in rows.items():
        if fields:
            old, new = ({name: getattr(row, name) for name in fields} for row in (before, after))
            await record(
                conn, actor, action, kind, subject, name=_get_text(before, "name"), before=old, after=new
            )
    return after


def normalize_name(name: str, *, least: int = 1) -> str:
    """Collapse the white space of a name and check its length, `least` to 200. Raises Invalid."""
    name = " ".join(name.split())
    if not least <= len(name) <= MOST_NAME:
        raise Invalid("name", f"must have {least} to {MOST_NAME} characters")
    if not is_line(name):
        raise Invalid("name", "holds control characters or lone surrogates")
    return name


_TABLES = {
    "account": ("accounts", "account_id"),
    "key": ("api_keys", "key_id"),
    "plan": ("plans", "name"),
    "knowledge base": ("knowledge_bases", "knowledge_base_id"),
}
_DISABLED = sql.SQL("disabled_at = CASE WHEN %(disabled)s THEN coalesce(disabled_at, now()) END")


_RECORD = """
INSERT INTO audit_log (actor, action, kind, subject, subject_name, before, after)
VALUES (%s, %s, %s, %s, coalesce(%s, (SELECT name FROM accounts WHERE account_id = %s)), %s, %s)"""


def _encode(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
