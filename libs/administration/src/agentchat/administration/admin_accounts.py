"""Create, show, change, disable and delete accounts."""

import msgspec
import psycopg

from agentchat.administration import admin_conversations, admin_plans, deletion_impact
from agentchat.administration.admin import IS_IN_LIMIT, Admin
from agentchat.administration.admin_values import Account, AccountChanges, Deletion, NewAccount, Page
from agentchat.administration.agent_rows import list_agents
from agentchat.administration.agent_versions import delete_agent
from agentchat.administration.audit_rows import write
from agentchat.administration.checked_input import parse_id, validate
from agentchat.administration.knowledge_rows import delete_base
from agentchat.administration.query_parameters import After, DryRun, Force, Limit
from agentchat.administration.row_pages import fetch_page, find_row, normalize_name
from agentchat.contracts.admin_errors import Conflict, Invalid, NotFound, Use
from agentchat.contracts.ids import make_id
from agentchat.runtime.postgres import Connection

_PORTION = 100
_LARGE_SECONDS = 120.0


async def create(admin: Admin, new: NewAccount) -> Account:
    """Create an account. Raises Invalid, also for an unknown plan; Conflict if the id is taken."""
    new = validate(new)
    account_id = new.id.lower() if new.id else make_id()
    async with admin.transaction() as conn:
        await admin_plans.check_named(conn, new.plan)
        try:
            await conn.execute(
                _INSERT, msgspec.structs.asdict(new) | {"id": account_id, "name": normalize_name(new.name)}
            )
        except psycopg.errors.UniqueViolation:
            raise Conflict.from_existing("account", account_id) from None
        account = await find_account(conn, account_id)
        await admin.note(conn, "create", "account", account_id, after=account)
    return account


async def page(admin: Admin, *, after: After | None = None, limit: Limit = 20) -> Page[Account]:
    """List accounts, the oldest first."""
    query = f"{_ACCOUNT} WHERE account_id > %(after)s AND {IS_IN_LIMIT} ORDER BY account_id"
    async with admin.connection() as conn:
        return await fetch_page(conn, Account, query, {"after": after or "", **admin.limit}, limit)


async def get(admin: Admin, account_id: str) -> Account:
    """Get an account. Raises NotFound."""
    async with admin.connection() as conn:
        return await find_account(conn, account_id)


async def load_budgets(admin: Admin) -> dict[str, float]:
    """Return the monthly budgets by the ids of the accounts that have one."""
    query = "SELECT account_id, monthly_budget::float8 FROM accounts WHERE monthly_budget IS NOT NULL"
    async with admin.connection() as conn:
        return dict(await (await conn.execute(query)).fetchall())


async def change(admin: Admin, account_id: str, changes: AccountChanges) -> Account:
    """Rename an account, change its plan, disable or enable it.

    The plan and `disabled` count from the next request on. Raises NotFound, Invalid, Conflict if an account
    that is being deleted is to be enabled.
    """
    given = validate(changes).to_dict()
    if "name" in given:
        given["name"] = normalize_name(given["name"])
    async with admin.transaction() as conn:
        before = await find_account(conn, account_id, lock=True)
        if before.deleting and given.get("disabled") is False:
            raise Conflict(_DELETING)
        if "plan" in given:
            await admin_plans.check_named(conn, given["plan"])
        return await write(conn, admin.actor, "account", before, given)


async def delete(admin: Admin, account_id: str, *, force: Force = False, dry_run: DryRun = False) -> Deletion:
    """Delete an account; with force all that it has, its conversations too.

    First the account is disabled and its agents go, so that no run begins any more. If it has conversations,
    the deletion is `pending`: the projector erases them, then deletes the account; calling this again tells
    what is left. Raises NotFound, Conflict, Unavailable.
    """
    account = await get(admin, account_id)
    if not (dry_run or account.deleting):
        await admin_conversations.wait_for_projector(admin)
    goes = await deletion_impact.list_account_holdings(admin, account.id)
    deletion = Deletion(
        kind="account",
        id=account.id,
        dry_run=dry_run,
        needs_force=bool(goes) and not force and not account.deleting,
        goes=goes,
        pending=account.deleting,
    )
    if dry_run or account.deleting:
        return deletion
    if deletion.needs_force:
        raise _build_conflict(goes)
    if goes:
        goes = await _empty_account(admin, account.id)
    pending = any(use.kind == "conversations" for use in goes)
    async with admin.transaction(_LARGE_SECONDS) as conn:
        before = await find_account(conn, account.id, lock=True)
        if not force and (left := await deletion_impact.list_directory_holdings(conn, account.id)):
            raise _build_conflict(left)
        await conn.execute(_REQUEST_DELETION if pending else _DELETE, [account.id])
        await admin.note(conn, "delete", "account", account.id, before=before)
    return msgspec.structs.replace(deletion, goes=goes, pending=pending)


async def find_account(conn: Connection, account_id: str, *, lock: bool = False) -> Account:
    """Find an account, also a disabled one. Raises NotFound.

    `lock` locks its row until the transaction ends, so that nothing is added to the account.
    """
    account_id = parse_id("account", account_id)
    query = f"{_ACCOUNT} WHERE account_id = %s{' FOR UPDATE' if lock else ''}"
    return await find_row(conn, Account, query, [account_id], "account", account_id)


async def find_named_account(conn: Connection, account_id: str) -> str:
    """Find the account that a field `account_id` names, lock its row, return its id. Raises Invalid."""
    try:
        found = await find_account(conn, account_id, lock=True)
    except NotFound:
        raise Invalid("account_id", "there is no such account") from None
    if found.deleting:
        raise Invalid("account_id", _DELETING)
    return found.id


def _build_conflict(uses: tuple[Use, ...]) -> Conflict:
    listed = ", ".join(f"{use.count} {use.kind if use.count > 1 else use.kind[:-1]}" for use in uses)
    return Conflict(f"the account still has {listed}; force deletes them with it", uses)


async def _empty_account(admin: Admin, account_id: str) -> tuple[Use, ...]:
    """Disable an account and delete its agents and knowledge bases; return what is left."""
    await change(admin, account_id, AccountChanges(disabled=True))
    async with admin.connection() as conn:
        while agents := await list_agents(admin, conn, account_id, limit=_PORTION):
            for agent in agents:
                await delete_agent(conn, agent.agent_id, actor=admin.actor)
    async with admin.connection(_LARGE_SECONDS) as conn:
        cursor = await conn.execute(
            "SELECT knowledge_base_id FROM knowledge_bases WHERE account_id = %s", [account_id]
        )
        for (base_id,) in await cursor.fetchall():
            await delete_base(conn, base_id, actor=admin.actor)
    await admin_conversations.wait_for_projector(admin)
    return await deletion_impact.list_account_holdings(admin, account_id)


_DELETING = "the account is being deleted"

_ACCOUNT = """
SELECT account_id, name, plan, require_user, disabled_at IS NOT NULL, created_at,
       deletion_requested_at IS NOT NULL, monthly_budget::float8, user_monthly_budget::float8,
       retention_days
  FROM accounts"""

_INSERT = """
INSERT INTO accounts
    (account_id, name, plan, require_user, monthly_budget, user_monthly_budget, retention_days)
VALUES (%(id)s, %(name)s, %(plan)s, %(require_user)s, %(monthly_budget)s, %(user_monthly_budget)s,
        %(retention_days)s)
"""

_REQUEST_DELETION = "UPDATE accounts SET deletion_requested_at = now() WHERE account_id = %s"
_DELETE = "DELETE FROM accounts WHERE account_id = %s"
