"""Write changes of rows with their audit rows."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from psycopg import sql

from agentchat.runtime.postgres import Connection

S = TypeVar("S", bound=msgspec.Struct)


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
