"""The audit log: who changed what, from what, to what, when."""

from datetime import datetime
from typing import Any

import msgspec

from runtime.postgres import Connection


class Entry(msgspec.Struct, frozen=True):
    """A row of the log; `before` and `after` are JSON."""

    id: int
    at: datetime
    actor: str
    action: str
    kind: str
    subject: str
    before: str | None
    after: str | None


async def record(
    conn: Connection,
    actor: str,
    action: str,
    kind: str,
    subject: str,
    *,
    before: Any = None,
    after: Any = None,
) -> None:
    """Add a row, in the caller's transaction. `before` and `after` are JSON values or structs, no secrets."""
    await conn.execute(
        "INSERT INTO audit_log (actor, action, kind, subject, before, after) VALUES (%s, %s, %s, %s, %s, %s)",
        [actor, action, kind, subject, _json(before), _json(after)],
    )


async def list_entries(
    conn: Connection,
    *,
    kind: str | None = None,
    subject: str | None = None,
    actor: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[Entry]:
    """The rows below id `before`, the newest first; those of one kind, subject or actor where it is given."""
    asked = {"kind": kind, "subject": subject, "actor": actor, "id": before}
    conditions = [_CONDITIONS[name] for name, value in asked.items() if value is not None]
    where = " AND ".join(conditions) or "true"
    cursor = await conn.execute(
        f"{_ENTRIES} WHERE {where} ORDER BY id DESC LIMIT %(limit)s", asked | {"limit": limit}
    )
    return [Entry(*row) for row in await cursor.fetchall()]


_ENTRIES = "SELECT id, at, actor, action, kind, subject, before::text, after::text FROM audit_log"

_CONDITIONS = {
    "kind": "kind = %(kind)s",
    "subject": "subject = %(subject)s",
    "actor": "actor = %(actor)s",
    "id": "id < %(id)s",
}


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
