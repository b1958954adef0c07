"""Calls of one statement on a connection that is kept."""

import asyncio
from collections.abc import Sequence

import psycopg

from agentchat.runtime.batched_statement import BatchedStatement, Form, Rows
from agentchat.runtime.postgres import Pool

KEY = 7_310_001
LOCK = b"""
SELECT place, pg_advisory_xact_lock(key)::text FROM unnest($1::bigint[]) WITH ORDINALITY AS n (key, place)
"""


def take_places(batch: Sequence[int], rows: Rows) -> list[int]:
    assert len(rows) == len(batch)
    return [place for place, _ in rows]


async def test_closing_lets_a_call_under_way_end(migrated_database_url: str, pool: Pool) -> None:
    form = Form(LOCK, lambda batch: [list(batch)], take_places, repeatable=False)
    statement = BatchedStatement(pool, form)
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as other:
        await other.execute("SELECT pg_advisory_xact_lock(%s)", [KEY])
        call = asyncio.create_task(statement.call(KEY))
        while await (await other.execute(WAITS, [KEY])).fetchone() != (True,):  # noqa: ASYNC110 - a server's state
            await asyncio.sleep(0.01)
        closing = asyncio.create_task(statement.aclose())
        await asyncio.sleep(0)
        await other.rollback()
        assert await call == 1
        await closing


WAITS = (
    "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND objid = %s::bigint)"
)
