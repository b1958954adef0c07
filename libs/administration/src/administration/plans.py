"""Plans: the numbers that accounts are held to; a change counts from the next request on."""

import msgspec

from administration.admin import Admin
from administration.errors import Conflict, Invalid, NotFound
from administration.holdings import NAMES
from administration.reading import bounded, checked, page_of, storable
from administration.values import Deletion, NewPlan, Page, Plan, PlanChanges, Use
from directory import administration as directory
from runtime.postgres import Connection


async def create(admin: Admin, new: NewPlan) -> Plan:
    """Raises Invalid, Conflict where the name is taken."""
    plan = Plan(**msgspec.structs.asdict(checked(new)))
    async with admin.connection() as conn:
        await directory.create_plan(conn, plan, actor=admin.actor)
    return plan


async def page(admin: Admin, *, after: str | None = None, limit: int = 20) -> Page[Plan]:
    """By name."""
    limit = bounded(limit)
    async with admin.connection() as conn:
        rows = await directory.list_plans(conn, after=after or "", limit=limit + 1)
    return page_of(rows, limit, rows[:limit][-1].name if rows else None)


async def get(admin: Admin, name: str) -> Plan:
    """Raises NotFound."""
    async with admin.connection() as conn:
        found = await directory.find_plan(conn, _name(name))
    if found is None:
        raise NotFound("plan", name[:100])
    return found


async def change(admin: Admin, name: str, changes: PlanChanges) -> Plan:
    """Raises NotFound, Invalid."""
    given = msgspec.to_builtins(checked(changes))
    async with admin.connection() as conn:
        return await directory.change_plan(conn, _name(name), given, actor=admin.actor)


async def delete(admin: Admin, name: str, *, dry_run: bool = False) -> Deletion:
    """Raises NotFound, Conflict while accounts are on it; a dry run tells that too."""
    async with admin.transaction() as conn:
        if await directory.find_plan(conn, _name(name), lock=True) is None:
            raise NotFound("plan", name)
        count, names = await directory.accounts_on(conn, name, limit=NAMES)
        if count:
            uses = (Use("accounts", count, tuple(names)),)
            raise Conflict(f"the plan {name} is that of {count} account{'s' * (count > 1)}", uses)
        if not dry_run:
            await directory.delete_plan(conn, name, actor=admin.actor)
    return Deletion(kind="plan", id=name, dry_run=dry_run)


async def unknown(conn: Connection) -> Invalid:
    """What to say of a field `plan` that names none."""
    names = [plan.name for plan in await directory.list_plans(conn)]
    return Invalid.of("plan", f"there is no such plan; there are {', '.join(names)}")


def _name(name: str) -> str:
    """Raises NotFound for what no plan can be called."""
    try:
        return storable("name", name)
    except Invalid:
        raise NotFound("plan", "with characters that are in no name") from None
