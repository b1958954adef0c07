"""Runs with scores, as a judge stores them."""

from contracts.ids import new_id
from conversations.judged.judged_runs import Judgement, StoredScore, lease_runs, store
from runtime.postgres import Pool, connection

_TO_JUDGE = """
INSERT INTO judged_runs (trace_id, conversation_id, account_id, agent_id, agent_version, ended_at, due_at)
VALUES (%s, %s, 'account', %s, %s, '2026-11-27T10:00:00Z', now() - interval '1 year')
"""


async def to_judge(
    pool: Pool, trace_id: str, conversation_id: str | None = None, agent_id: str = "agent", version: int = 1
) -> None:
    """It is the first that is due."""
    async with connection(pool) as conn:
        await conn.execute(_TO_JUDGE, [trace_id, conversation_id or new_id(), agent_id, version])


async def score(
    pool: Pool,
    trace_id: str,
    *scores: StoredScore,
    conversation_id: str | None = None,
    agent_id: str = "agent",
    version: int = 1,
) -> None:
    await to_judge(pool, trace_id, conversation_id, agent_id, version)
    (run,) = await lease_runs(pool, 1, seconds=60)
    assert run.trace_id == trace_id
    assert await store(pool, Judgement(run=run, scores=scores))
