"""Conversations picked by chance out of those that an agent answered in: the same ones for the same seed."""

from conversations.database import using
from runtime.postgres import Pool


async def sample_conversations(pool: Pool, account_id: str, agent_id: str, most: int, seed: int) -> list[str]:
    """At most `most` ids of conversations with a completed run of the agent. Raises StoreUnavailable.

    Read from the projection `runs`, which may be an instant behind the log.
    """
    asked = {"account": account_id, "agent": agent_id, "seed": str(seed), "most": most}
    async with using(pool) as conn:
        rows = await (await conn.execute(_SAMPLE, asked)).fetchall()
    return [conversation_id for (conversation_id,) in rows]


_SAMPLE = """
SELECT conversation_id FROM runs
 WHERE account_id = %(account)s AND agent_id = %(agent)s AND state = 'completed'
 GROUP BY conversation_id
 ORDER BY md5(conversation_id || %(seed)s), conversation_id
 LIMIT %(most)s
"""
