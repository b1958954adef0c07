"""What several pages show of the directory: accounts and agents to choose from, the changes of one thing."""

from collections.abc import Collection
from typing import Any

import msgspec

from administration.admin_values import AuditRow, Page
from console.console_services import services_of
from console.frame.access import AnyRequest, rights_of
from console.frame.acting import administer
from directory.shown_names import shown_names

_CHANGES = 10
_MOST_CHOICES = 100


class FilterChoices(msgspec.Struct, frozen=True):
    """Names of accounts and agents by id, for lists to choose from; None where there are too many for one."""

    accounts: dict[str, str] | None
    agents: dict[str, str] | None


async def filter_choices(request: AnyRequest) -> FilterChoices:
    return FilterChoices(await account_choices(request), await _choices(request, "GET /agents"))


async def account_choices(request: AnyRequest) -> dict[str, str] | None:
    """Their names by id; None where there are too many for a list."""
    return await _choices(request, "GET /accounts")


async def _choices(request: AnyRequest, route: str) -> dict[str, str] | None:
    found: Page[Any] = await administer(request, route, limit=_MOST_CHOICES)
    return None if found.after else {each.id: each.name for each in found.items}


async def account_names(request: AnyRequest, account_ids: Collection[str]) -> dict[str, str]:
    """Of the accounts on a page."""
    return (await shown_names(services_of(request).pool, account_ids, ())).accounts


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


async def changes_of(request: AnyRequest, subject: str) -> tuple[AuditRow, ...]:
    """The last changes of a thing, the newest first; none for who may not read the audit log."""
    if not rights_of(request)("GET /audit"):
        return ()
    found = await administer(request, "GET /audit", subject=subject, limit=_CHANGES)
    items: tuple[AuditRow, ...] = found.items
    return items
