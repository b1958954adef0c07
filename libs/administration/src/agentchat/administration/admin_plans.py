"""Create, change and delete plans, the limits of accounts. Changes apply from the next request on."""

import msgspec

from agentchat.administration.admin import Admin
from agentchat.administration.admin_values import Deletion, NewPlan, Page, PlanChanges
from agentchat.administration.audit_rows import write
from agentchat.administration.checked_input import check_storable, validate
from agentchat.administration.deletion_impact import NAMES
from agentchat.administration.query_parameters import After, DryRun, Limit
from agentchat.administration.row_pages import fetch_all, fetch_page, find_row
from agentchat.contracts.admin_errors import Conflict, Invalid, NotFound, Use
from agentchat.directory.plans import Plan
from agentchat.runtime.postgres import Connection


async def create(admin: Admin, new: NewPlan) -> Plan:
    """Create a plan. Raises Invalid, Conflict if the name is taken."""
    plan = Plan(**msgspec.structs.asdict(validate(new)))
    async with admin.transaction() as conn:
        cursor = await conn.execute(_INSERT, msgspec.structs.asdict(plan))
        if cursor.rowcount == 0:
            raise Conflict.from_existing("plan", plan.name)
        await admin.note(conn, "create", "plan", plan.name, after=plan)
    return plan


async def page(admin: Admin, *, after: After | None = None, limit: Limit = 20) -> Page[Plan]:
    """List the plans by name."""
    query = f"{_PLAN} WHERE name > %(after)s ORDER BY name"
    async with admin.connection() as conn:
        return await fetch_page(conn, Plan, query, {"after": after or ""}, limit, by="name")


async def get(admin: Admin, name: str) -> Plan:
    """Get a plan. Raises NotFound."""
    async with admin.connection() as conn:
        return await _find_plan(conn, name)


async def load_plans_by_account(admin: Admin) -> dict[str, Plan]:
    """Return the plan of every account, by the accounts' ids, with two queries."""
    async with admin.connection() as conn:
        plans = {plan.name: plan for plan in await fetch_all(conn, Plan, _PLAN, ())}
        rows = await (await conn.execute("SELECT account_id, plan FROM accounts")).fetchall()
    return {account_id: plans[name] for account_id, name in rows}


async def change(admin: Admin, name: str, changes: PlanChanges) -> Plan:
    """Change a plan's numbers, from the next request on. Raises NotFound, Invalid."""
    given = validate(changes).to_dict()
    async with admin.transaction() as conn:
        before = await _find_plan(conn, name, lock=True)
        return await write(conn, admin.actor, "plan", before, given)


async def delete(admin: Admin, name: str, *, dry_run: DryRun = False) -> Deletion:
    """Delete a plan that no account is on.

    Raises NotFound, and Conflict while accounts are on it, for a dry run too.
    """
    async with admin.transaction() as conn:
        before = await _find_plan(conn, name, lock=True)
        cursor = await conn.execute(_ACCOUNTS_ON, [name, NAMES])
        if rows := await cursor.fetchall():
            count, names = rows[0][0], tuple(row[1] for row in rows)
            reason = f"the plan {name} is that of {count} account{'s' * (count > 1)}"
            raise Conflict(reason, (Use("accounts", count, names),))
        if not dry_run:
            await conn.execute("DELETE FROM plans WHERE name = %s", [name])
            await admin.note(conn, "delete", "plan", name, before=before)
    return Deletion(kind="plan", id=name, dry_run=dry_run)


async def check_named(conn: Connection, name: str) -> None:
    """Check that a field `plan` names a plan, and lock it for the transaction. Raises Invalid."""
    cursor = await conn.execute("SELECT FROM plans WHERE name = %s FOR KEY SHARE", [name])
    if await cursor.fetchone() is None:
        names = await (await conn.execute("SELECT name FROM plans ORDER BY name LIMIT 100")).fetchall()
        listed = ", ".join(each for (each,) in names)
        raise Invalid("plan", f"there is no such plan; there are {listed}")


async def _find_plan(conn: Connection, name: str, *, lock: bool = False) -> Plan:
    """Find a plan; `lock` locks its row, so that no account can be put on it. Raises NotFound."""
    try:
        name = check_storable("name", name)
    except Invalid:
        raise NotFound("plan", "with characters that are in no name") from None
    query = f"{_PLAN} WHERE name = %s{' FOR UPDATE' if lock else ''}"
    return await find_row(conn, Plan, query, [name], "plan", name[:100])


_COLUMNS = ", ".join(Plan.__struct_fields__)

_PLAN = f"SELECT {_COLUMNS} FROM plans"  # noqa: S608 - names of ours

_ACCOUNTS_ON = "SELECT count(*) OVER (), name FROM accounts WHERE plan = %s ORDER BY account_id LIMIT %s"

_INSERT = f"""
INSERT INTO plans ({_COLUMNS}) VALUES ({", ".join(f"%({name})s" for name in Plan.__struct_fields__)})
ON CONFLICT DO NOTHING
"""  # noqa: S608 - as above
