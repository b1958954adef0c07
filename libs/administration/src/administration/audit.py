"""The audit log: who changed what, from what, to what, when."""

from typing import Any

import msgspec

from administration.admin import Admin
from administration.errors import Invalid
from administration.reading import bounded, page_of, storable
from administration.times import utc
from administration.values import AuditRow, Page
from directory.administration.audit import Entry, list_entries


async def page(
    admin: Admin,
    *,
    kind: str | None = None,
    subject: str | None = None,
    actor: str | None = None,
    after: str | None = None,
    limit: int = 20,
) -> Page[AuditRow]:
    """The newest first. `kind` is such as account, key, plan, agent, knowledge_base, document.

    Raises Invalid.
    """
    limit = bounded(limit)
    if after is not None and not (after.isdecimal() and len(after) < 19):
        raise Invalid.of("after", "must be the id of a row")
    asked = {"kind": kind and kind.replace("_", " "), "subject": subject, "actor": actor}
    for name, value in asked.items():
        storable(name, value or "")
    async with admin.connection() as conn:
        before = None if after is None else int(after)
        rows = await list_entries(conn, **asked, before=before, limit=limit + 1)
    shown = [_shown(row) for row in rows]
    return page_of(shown, limit, str(shown[:limit][-1].id) if shown else None)


def _shown(row: Entry) -> AuditRow:
    return AuditRow(
        id=row.id,
        at=utc(row.at),
        actor=row.actor,
        action=row.action,
        kind=row.kind.replace(" ", "_"),
        subject=row.subject,
        before=_value(row.before),
        after=_value(row.after),
    )


def _value(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
