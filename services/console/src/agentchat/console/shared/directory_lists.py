"""List accounts and agents to choose from, and the last changes of one of them."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

import msgspec

from agentchat.administration import admin_accounts, admin_audit
from agentchat.administration.admin_values import AuditRow, Page
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin, get_rights
from agentchat.directory.display_names import AgentOption, list_agent_names, load_display_names

T = TypeVar("T")

_CHANGES = 10
_MOST_CHOICES = 100


class FilterChoices(msgspec.Struct, frozen=True):
    """Names of accounts and agents by id, for drop-downs; None if there are too many for one."""

    accounts: dict[str, str] | None
    agents: dict[str, str] | None


async def list_filter_choices(request: AnyRequest) -> FilterChoices:
    """List the accounts and agents that a page can be filtered by.

    Only names are read, no secrets.
    """
    agents = await list_agent_names(
        get_services(request).pool, _MOST_CHOICES + 1, account_ids=get_admin(request).account_ids
    )
    return FilterChoices(
        await list_account_choices(request),
        None if len(agents) > _MOST_CHOICES else build_agent_labels(agents),
    )


def build_agent_labels(agents: Sequence[AgentOption]) -> dict[str, str]:
    """Return the names of agents by id; agents of one name are told apart by their accounts."""
    uses = Counter(each.name for each in agents)
    return {each.id: f"{each.name} ({each.account})" if uses[each.name] > 1 else each.name for each in agents}


async def list_account_choices(request: AnyRequest) -> dict[str, str] | None:
    """Return the names of accounts by id; None if there are too many for a drop-down."""
    found = await admin_accounts.page(get_admin(request), limit=_MOST_CHOICES)
    return None if found.after else {each.id: each.name for each in found.items}


async def load_account_names(request: AnyRequest, account_ids: Collection[str]) -> dict[str, str]:
    """Return the names of the accounts on a page by id."""
    return (await load_display_names(get_services(request).pool, account_ids, ())).accounts


async def list_all(page: Callable[..., Awaitable[Page[T]]], *arguments: object) -> tuple[T, ...]:
    """Return all items of a list of the administration, read page by page."""
    found: list[T] = []
    after = None
    while True:
        part = await page(*arguments, after=after, limit=100)
        found += part.items
        after = part.after
        if after is None:
            return tuple(found)


async def list_changes(request: AnyRequest, subject: str) -> tuple[AuditRow, ...]:
    """Return the last changes of a subject, or none without access to the audit log."""
    if not get_rights(request)("GET /audit"):
        return ()
    found = await admin_audit.page(get_admin(request), subject=subject, limit=_CHANGES)
    return found.items
