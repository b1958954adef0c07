"""The audit log: who changed what, from what, to what, when."""

from typing import Any

import msgspec

from runtime.postgres import Connection


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


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
