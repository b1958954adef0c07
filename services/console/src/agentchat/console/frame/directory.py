"""What several pages show of the directory: accounts and agents to choose from, the changes of one thing."""

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

import msgspec

from agentchat.administration import admin_accounts, admin_agents, admin_audit
from agentchat.administration.admin_values import Account, Agent, AuditRow, Page
from agentchat.console.console_services import services_of
from agentchat.console.frame.access import AnyRequest, rights_of
from agentchat.console.frame.acting import admin_of
from agentchat.directory.display_names import load_display_names

T = TypeVar("T")

_CHANGES = 10
_MOST_CHOICES = 100


class FilterChoices(msgspec.Struct, frozen=True):
    """Names of accounts and agents by id, for lists to choose from; None where there are too many for one."""

    accounts: dict[str, str] | None
    agents: dict[str, str] | None


async def filter_choices(request: AnyRequest) -> FilterChoices:
    return FilterChoices(await account_choices(request), await _choices(request, admin_agents.page))


async def account_choices(request: AnyRequest) -> dict[str, str] | None:
    """Their names by id; None where there are too many for a list."""
    return await _choices(request, admin_accounts.page)


async def _choices(
    request: AnyRequest, page: Callable[..., Awaitable[Page[Account] | Page[Agent]]]
) -> dict[str, str] | None:
    found = await page(admin_of(request), limit=_MOST_CHOICES)
    return None if found.after else {each.id: each.name for each in found.items}


async def account_names(request: AnyRequest, account_ids: Collection[str]) -> dict[str, str]:
    """Of the accounts on a page."""
    return (await load_display_names(services_of(request).pool, account_ids, ())).accounts


async def all_of(page: Callable[..., Awaitable[Page[T]]], *arguments: object) -> tuple[T, ...]:
    """Return every item of a list of the administration, page by page."""
    found: list[T] = []
    after = None
    while True:
        part = await page(*arguments, after=after, limit=100)
        found += part.items
        after = part.after
        if after is None:
            return tuple(found)


async def changes_of(request: AnyRequest, subject: str) -> tuple[AuditRow, ...]:
    """The last changes of a thing, the newest first; none for who may not read the audit log."""
    if not rights_of(request)("GET /audit"):
        return ()
    found = await admin_audit.page(admin_of(request), subject=subject, limit=_CHANGES)
    return found.items
