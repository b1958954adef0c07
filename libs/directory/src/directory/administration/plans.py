"""Plans: data that an administrator may change; the numbers count from the next request on."""

from typing import Any

import msgspec
import psycopg

from directory.administration.audit import record
from directory.errors import Invalid, NotFound
from directory.plans import Plan
from runtime.postgres import Connection


async def put_plan(conn: Connection, plan: Plan, *, actor: str) -> None:
    """Make `plan`, or give the one of its name these numbers."""
    async with conn.transaction():
        before = await _find_plan(conn, plan.name)
        await _write_plan(conn, plan)
        await record(conn, actor, "put", "plan", plan.name, before=before, after=plan)


async def change_plan(conn: Connection, name: str, changes: dict[str, Any], *, actor: str) -> Plan:
    """Change some of a plan's numbers, by field name; returns it as it is then. Raises NotFound, Invalid."""
    async with conn.transaction():
        before = await _find_plan(conn, name)
        if before is None:
            raise NotFound("plan", name)
        try:
            after = msgspec.convert(msgspec.to_builtins(before) | changes | {"name": name}, Plan)
        except msgspec.ValidationError as error:
            raise Invalid("plan", str(error).replace("`", "")) from None
        await _write_plan(conn, after)
        await record(conn, actor, "change", "plan", name, before=before, after=after)
    return after


async def _find_plan(conn: Connection, name: str) -> Plan | None:
    cursor = await conn.execute(
        "SELECT requests_per_minute, concurrent_runs, tokens_per_month, form2_streaming, max_message_bytes "
        "FROM plans WHERE name = %s FOR UPDATE",
        [name],
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    per_minute, concurrent, tokens, form2, message_bytes = row
    return Plan(
        name=name,
        requests_per_minute=per_minute,
        concurrent_runs=concurrent,
        tokens_per_month=tokens,
        form2_streaming=form2,
        max_message_bytes=message_bytes,
    )


async def _write_plan(conn: Connection, plan: Plan) -> None:
    try:
        await conn.execute(_WRITE, msgspec.to_builtins(plan))
    except (psycopg.errors.CheckViolation, psycopg.errors.NumericValueOutOfRange):
        raise Invalid("plan", "its numbers must be above 0 and fit their columns") from None


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
