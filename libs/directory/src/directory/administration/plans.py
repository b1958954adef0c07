"""Plans: data that an administrator may change; the numbers count from the next request on."""

from typing import Any

import msgspec
import psycopg

from directory.administration.audit import record
from directory.errors import Conflict, Invalid, NotFound
from directory.plans import Plan, plan_from
from runtime.postgres import Connection


async def put_plan(conn: Connection, plan: Plan, *, actor: str) -> None:
    """Make `plan`, or give the one of its name these numbers. Raises Invalid."""
    async with conn.transaction():
        before = await find_plan(conn, plan.name, lock=True)
        await _write_plan(conn, plan)
        await record(conn, actor, "put", "plan", plan.name, before=before, after=plan)


async def create_plan(conn: Connection, plan: Plan, *, actor: str) -> None:
    """Make `plan`. Raises Invalid, Conflict where there is one of its name."""
    async with conn.transaction():
        cursor = await conn.execute(
            "INSERT INTO plans (name, form2_streaming) VALUES (%s, false) ON CONFLICT DO NOTHING", [plan.name]
        )
        if cursor.rowcount == 0:
            raise Conflict("plan", plan.name)
        await _write_plan(conn, plan)
        await record(conn, actor, "create", "plan", plan.name, after=plan)


async def change_plan(conn: Connection, name: str, changes: dict[str, Any], *, actor: str) -> Plan:
    """Change some of a plan's numbers, by field name; returns it as it is then. Raises NotFound, Invalid."""
    async with conn.transaction():
        before = await find_plan(conn, name, lock=True)
        if before is None:
            raise NotFound("plan", name)
        try:
            after = msgspec.convert(msgspec.to_builtins(before) | changes | {"name": name}, Plan)
        except msgspec.ValidationError as error:
            raise Invalid("plan", str(error).replace("`", "")) from None
        if after == before:
            return before
        await _write_plan(conn, after)
        await record(conn, actor, "change", "plan", name, before=before, after=after)
    return after


async def delete_plan(conn: Connection, name: str, *, actor: str) -> None:
    """Raises NotFound, Conflict while an account is on it."""
    async with conn.transaction():
        before = await find_plan(conn, name, lock=True)
        if before is None:
            raise NotFound("plan", name)
        try:
            async with conn.transaction():
                await conn.execute("DELETE FROM plans WHERE name = %s", [name])
        except psycopg.errors.ForeignKeyViolation:
            raise Conflict("plan", name, "is in use") from None
        await record(conn, actor, "delete", "plan", name, before=before)


async def accounts_on(conn: Connection, name: str, *, limit: int) -> tuple[int, list[str]]:
    """How many accounts are on the plan, and the names of the first `limit` of them."""
    cursor = await conn.execute(
        "SELECT count(*) OVER (), name FROM accounts WHERE plan = %s ORDER BY account_id LIMIT %s",
        [name, limit],
    )
    rows = await cursor.fetchall()
    return (rows[0][0] if rows else 0), [row[1] for row in rows]


async def list_plans(conn: Connection, *, after: str = "", limit: int = 100) -> list[Plan]:
    """The plans whose names come after `after`, in the order of their names."""
    cursor = await conn.execute(f"{_PLAN} WHERE name > %s ORDER BY name LIMIT %s", [after, limit])
    return [plan_from(row) for row in await cursor.fetchall()]


async def find_plan(conn: Connection, name: str, *, lock: bool = False) -> Plan | None:
    """The plan; None where there is none. `lock` holds its row, so that no account comes to it meanwhile."""
    cursor = await conn.execute(f"{_PLAN} WHERE name = %s{' FOR UPDATE' if lock else ''}", [name])
    row = await cursor.fetchone()
    return None if row is None else plan_from(row)


async def _write_plan(conn: Connection, plan: Plan) -> None:
    try:
        await conn.execute(_WRITE, msgspec.to_builtins(plan))
    except (psycopg.errors.CheckViolation, psycopg.errors.NumericValueOutOfRange):
        raise Invalid("plan", "its numbers must be above 0 and fit their columns") from None


_PLAN = """
SELECT name, requests_per_minute, concurrent_runs, tokens_per_month, form2_streaming, max_message_bytes
FROM plans"""

_WRITE = """
INSERT INTO plans
    (name, requests_per_minute, concurrent_runs, tokens_per_month, form2_streaming, max_message_bytes)
VALUES
    (%(name)s, %(requests_per_minute)s, %(concurrent_runs)s, %(tokens_per_month)s, %(form2_streaming)s,
     %(max_message_bytes)s)
ON CONFLICT (name) DO UPDATE SET
    requests_per_minute = excluded.requests_per_minute,
    concurrent_runs = excluded.concurrent_runs,
    tokens_per_month = excluded.tokens_per_month,
    form2_streaming = excluded.form2_streaming,
    max_message_bytes = excluded.max_message_bytes
"""
