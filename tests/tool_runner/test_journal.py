"""A call that must not run twice has one execution, whoever asks and whenever."""

import asyncio
import os
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from agentchat.runtime.postgres import Pool, acquire_connection
from agentchat.tool_runner.journal import KEPT_SECONDS, Execution, Journal


async def _begin(
    journal: Journal, trace_id: str, seconds: float = 30.0, deadline: datetime | None = None
) -> Execution | None:
    return await journal.claim(trace_id, "call_1", deadline=deadline, seconds=seconds)


async def test_of_many_that_begin_a_call_at_once_one_may_run_it(pool: Pool) -> None:
    trace_id = os.urandom(16).hex()
    begun = await asyncio.gather(*(_begin(Journal(pool, f"r{n}"), trace_id) for n in range(12)))
    runners = {execution.runner for execution in begun if execution is not None}
    assert sum(execution is not None and execution.mine for execution in begun) == 1
    assert len(runners) == 1


async def test_a_process_that_begins_a_call_again_learns_that_it_has(pool: Pool) -> None:
    journal, trace_id = Journal(pool, "r"), os.urandom(16).hex()
    assert await _begin(journal, trace_id, 20.0) == Execution(mine=True, runner="r", seconds_left=20.0)
    again = await _begin(journal, trace_id, 20.0)
    assert again is not None
    assert again.mine is False
    assert again.runner == "r"
    assert 15.0 < again.seconds_left < 20.0
    assert await journal.claim(trace_id, "call_2", deadline=None, seconds=1.0) == Execution(True, "r", 1.0)


async def test_a_call_does_not_start_after_its_deadline(pool: Pool) -> None:
    journal, trace_id = Journal(pool, "r"), os.urandom(16).hex()
    assert await _begin(journal, trace_id, deadline=datetime.now(UTC) - timedelta(seconds=1)) is None
    begun = await _begin(journal, trace_id, deadline=datetime.now(UTC) + timedelta(seconds=30))
    assert begun is not None
    assert begun.mine


async def test_rows_are_kept_for_longer_than_any_redelivery(pool: Pool) -> None:
    journal, recent, old = Journal(pool, "r"), os.urandom(16).hex(), os.urandom(16).hex()
    await _begin(journal, recent, seconds=10.0 - KEPT_SECONDS)
    await _begin(journal, old, seconds=-10.0 - KEPT_SECONDS)
    await journal.delete_old()
    async with acquire_connection(pool) as conn:
        cursor = await conn.execute(
            "SELECT trace_id FROM tool_executions WHERE trace_id = ANY(%s)", [[recent, old]]
        )
        assert await cursor.fetchall() == [(recent,)]


async def test_no_service_may_hand_a_call_to_another_runner(pool: Pool) -> None:
    async with acquire_connection(pool) as conn:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await conn.execute("UPDATE tool_executions SET runner = 'other'")
