"""What several pages show of the directory: the accounts by their ids, the changes of one thing."""

from typing import Any

from administration.admin_values import Account, AuditRow
from console.frame.access import AnyRequest, rights_of
from console.frame.acting import administer

_CHANGES = 10


async def all_of(request: AnyRequest, route: str, **asked: Any) -> tuple[Any, ...]:
    """Every item of a list of the administration, page by page."""
    found: list[Any] = []
    after = None
    while True:
        part = await administer(request, route, **asked, after=after, limit=100)
        found += part.items
        after = part.after
        if after is None:
            return tuple(found)


async def accounts_by_id(request: AnyRequest) -> dict[str, Account]:
    """Accounts are few, and named on every page."""
    return {each.id: each for each in await all_of(request, "GET /accounts")}


async def changes_of(request: AnyRequest, subject: str) -> tuple[AuditRow, ...]:
    """The last changes of a thing, the newest first; none for who may not read the audit log."""
    if not rights_of(request)("GET /audit"):
        return ()
    found = await administer(request, "GET /audit", subject=subject, limit=_CHANGES)
    items: tuple[AuditRow, ...] = found.items
    return items
