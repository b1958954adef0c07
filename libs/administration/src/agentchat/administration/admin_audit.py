"""Read the audit log: who changed what, who read which conversations, and when."""

from typing import Any

import msgspec

from agentchat.administration.admin import Admin
from agentchat.administration.admin_values import AuditRow, Page
from agentchat.administration.checked_input import check_storable, parse_number
from agentchat.administration.query_parameters import After, ByActor, Limit, OfKind, OfSubject
from agentchat.administration.row_pages import fetch_page


async def page(
    admin: Admin,
    *,
    kind: OfKind | None = None,
    subject: OfSubject | None = None,
    actor: ByActor | None = None,
    after: After | None = None,
    limit: Limit = 20,
) -> Page[AuditRow]:
    """List the changes, the newest first: who, what, before, after, when.

    `kind` is such as account, key, plan, agent, knowledge_base, document. Raises Invalid.
    """
    texts = {"kind": kind and kind.replace("_", " "), "subject": subject, "actor": actor}
    for name, value in texts.items():
        check_storable(name, value or "")
    asked: dict[str, Any] = {**texts, "before": parse_number(after, "the id of a row", digits=18)}
    conditions = [_CONDITIONS[name] for name, value in asked.items() if value is not None]
    query = f"{_ROWS} WHERE {' AND '.join(conditions) or 'true'} ORDER BY id DESC"
    async with admin.connection() as conn:
        found = await fetch_page(conn, AuditRow, query, asked, limit)
    return msgspec.structs.replace(found, items=tuple(map(_decode_row, found.items)))


async def record_read(admin: Admin, path: str, found: Any) -> None:
    """Record that the actor reads texts of the conversations that a route has found. Raises Unavailable."""
    items = found.items if isinstance(found, Page) else (found,)
    ids = dict.fromkeys(getattr(each, "conversation_id", None) or each.id for each in items)
    if ids:
        async with admin.connection() as conn:
            await admin.note(conn, "read", "conversations", path, after={"conversations": list(ids)})


def _decode_row(row: AuditRow) -> AuditRow:
    """Decode `before` and `after`, which are read as text so that their numbers do not become floats."""
    values = {name: getattr(row, name) for name in ("before", "after")}
    decoded = {name: text and msgspec.json.decode(text) for name, text in values.items()}
    return msgspec.structs.replace(row, kind=row.kind.replace(" ", "_"), **decoded)


_ROWS = "SELECT id, at, actor, action, kind, subject, subject_name, before::text, after::text FROM audit_log"

_CONDITIONS = {
    "kind": "kind = %(kind)s",
    "subject": "subject = %(subject)s",
    "actor": "actor = %(actor)s",
    "before": "id < %(before)s",
}
