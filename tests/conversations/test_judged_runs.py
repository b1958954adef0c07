"""Runs that are to be judged are leased, and the scores of a lease that has ended are not stored."""

from collections.abc import AsyncIterator

import pytest

from conversations.judged.judged_runs import Judgement, LeasedRun, StoredScore, lease_runs, store
from conversations.judged.run_scores import scores_of
from runtime.postgres import Pool, connection
from tests.conversations.scored import to_judge

_TRACE = "7" * 32


@pytest.fixture
async def due(pool: Pool) -> AsyncIterator[Pool]:
    await to_judge(pool, _TRACE)
    yield pool
    async with connection(pool) as conn:
        await conn.execute("DELETE FROM judged_runs")


def _judged(run: LeasedRun, value: float) -> Judgement:
    score = StoredScore(evaluator="polite", value=value, passed=value == 1)
    return Judgement(run=run, scores=(score,), tokens=7)


async def test_who_has_lost_the_lease_stores_nothing(due: Pool) -> None:
    (slow,) = await lease_runs(due, 5, seconds=0)
    (other,) = await lease_runs(due, 5, seconds=60)
    assert (slow.tries, other.tries) == (1, 2)
    assert not await store(due, _judged(slow, 0))
    assert await store(due, _judged(other, 1))
    async with connection(due) as conn:
        ((score,),) = (await scores_of(conn, [_TRACE])).values()
        assert await (await conn.execute("SELECT tokens FROM judged_runs")).fetchall() == [(7,)]
    assert score.value == 1
    assert not await store(due, _judged(other, 0))  # nor a second time


async def test_a_run_that_another_process_takes_is_passed_over(due: Pool) -> None:
    async with connection(due) as conn, conn.transaction():
        await conn.execute("SELECT FROM judged_runs FOR UPDATE")
        assert await lease_runs(due, 5, seconds=60) == []
    assert len(await lease_runs(due, 5, seconds=60)) == 1
