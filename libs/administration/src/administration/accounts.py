"""Accounts: to be made, shown, changed, shut, and deleted with all that is theirs."""

from administration import conversations, holdings, plans
from administration.admin import Admin
from administration.errors import Conflict, NotFound
from administration.reading import bounded, checked, identifier, page_of
from administration.times import utc
from administration.values import Account, AccountChanges, Deletion, NewAccount, Page, Use
from directory import administration as directory
from directory import errors
from directory.administration import agent_rows
from knowledge import administration as knowledge

_PORTION = 100
_LARGE_SECONDS = 120.0


async def create(admin: Admin, new: NewAccount) -> Account:
    """Raises Invalid (the plan too), Conflict where the id is taken."""
    new = checked(new)
    async with admin.connection() as conn:
        try:
            made = await directory.create_account(
                conn, name=new.name, plan=new.plan, actor=admin.actor, account_id=new.id and new.id.lower()
            )
        except errors.NotFound:
            raise await plans.unknown(conn) from None
    return _shown(made)


async def page(admin: Admin, *, after: str | None = None, limit: int = 20) -> Page[Account]:
    """By id, which is the order in which they were made."""
    limit = bounded(limit)
    async with admin.connection() as conn:
        rows = await directory.list_accounts(conn, after=after or "", limit=limit + 1)
    shown = [_shown(row) for row in rows]
    return page_of(shown, limit, shown[:limit][-1].id if shown else None)


async def get(admin: Admin, account_id: str) -> Account:
    """Raises NotFound."""
    account_id = identifier("account", account_id)
    async with admin.connection() as conn:
        found = await directory.find_account(conn, account_id)
    if found is None:
        raise NotFound("account", account_id)
    return _shown(found)


async def change(admin: Admin, account_id: str, changes: AccountChanges) -> Account:
    """The plan and `disabled` count from the next request on. Raises NotFound, Invalid."""
    account_id, changes = identifier("account", account_id), checked(changes)
    async with admin.transaction() as conn:
        await directory.lock_account(conn, account_id)
        try:
            changed = await directory.change_account(
                conn, account_id, name=changes.name, plan=changes.plan, actor=admin.actor
            )
        except errors.NotFound:
            raise await plans.unknown(conn) from None
        if isinstance(changes.disabled, bool):
            changed = await directory.set_account_disabled(
                conn, account_id, changes.disabled, actor=admin.actor
            )
    return _shown(changed)


async def delete(admin: Admin, account_id: str, *, force: bool = False, dry_run: bool = False) -> Deletion:
    """Refused while it has keys, agents, knowledge bases or conversations; with `force` they go too.

    First the account is disabled and its agents go, so that no run begins any more; should a later step fail,
    calling it again goes on from there. Raises NotFound, Conflict, Unavailable.
    """
    account_id = identifier("account", account_id)
    if not dry_run:
        await conversations.caught_up(admin)
    goes = await holdings.of_account(admin, account_id)
    told = Deletion(
        kind="account",
        id=account_id,
        dry_run=dry_run,
        needs_force=dry_run and not force and bool(goes),
        goes=goes,
    )
    if dry_run:
        return told
    if goes and not force:
        raise in_use(goes)
    if goes:
        await _empty(admin, account_id, has_conversations=any(use.kind == "conversations" for use in goes))
    async with admin.transaction(_LARGE_SECONDS) as conn:
        await directory.lock_account(conn, account_id)
        left = await holdings.in_directory(conn, account_id)
        if left and not force:
            raise in_use(left)
        await directory.delete_account(conn, account_id, actor=admin.actor)
    return told


def in_use(uses: tuple[Use, ...]) -> Conflict:
    """What stands in the way of an account's deletion."""
    listed = ", ".join(f"{use.count} {use.kind if use.count > 1 else use.kind[:-1]}" for use in uses)
    return Conflict(f"the account still has {listed}; force deletes them with it", uses)


async def _empty(admin: Admin, account_id: str, *, has_conversations: bool) -> None:
    async with admin.connection() as conn:
        await directory.set_account_disabled(conn, account_id, True, actor=admin.actor)
        while agents := await agent_rows.list_agents(conn, account_id, limit=_PORTION):
            for agent in agents:
                await directory.delete_agent(conn, account_id, agent.agent_id, actor=admin.actor)
    if has_conversations or admin.bus is not None:
        await conversations.delete_all(admin, account_id)
    async with admin.connection(_LARGE_SECONDS) as conn:
        for base in await knowledge.list_knowledge_bases(conn, account_id):
            await knowledge.delete_knowledge_base(conn, account_id, base.knowledge_base_id, audit=admin.audit)


def _shown(row: directory.Account) -> Account:
    return Account(
        id=row.account_id, name=row.name, plan=row.plan, disabled=row.disabled, created_at=utc(row.created_at)
    )
