"""Sample conversations that have certain runs: the same ones for the same seed."""

from collections.abc import Mapping
from typing import LiteralString

import msgspec
from psycopg.types.json import Jsonb

from agentchat.conversations.aggregate.conversation import Run
from agentchat.runtime.postgres import Pool, acquire_connection


class RunSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions on runs; None matches any.

    `ends` are the states, [`since`, `until`) is the time of the request.

    Times are ISO 8601 UTC as in the log. The conversation has all of `metadata`. `rating` is the lowest and
    the highest mean score of the feedback on its reply, both inclusive.
    """

    ends: tuple[str, ...] = ("completed",)
    since: str | None = None
    until: str | None = None
    agent_id: str | None = None
    metadata: Mapping[str, str] = {}
    rating: tuple[float, float] | None = None

    def matches(self, run: Run) -> bool:
        """Return True if the run matches, its conversation aside."""
        return (
            run.state in self.ends
            and self.agent_id in (None, run.agent_id)
            and (self.since is None or run.requested_at >= self.since)
            and (self.until is None or run.requested_at < self.until)
            and self._matches_rating(run.rating)
        )

    def _matches_rating(self, rating: float | None) -> bool:
        if self.rating is None:
            return True
        worst, best = self.rating
        return rating is not None and worst <= rating <= best


async def sample_conversations(
    pool: Pool, account_id: str, runs: RunSelection, most: int, seed: int
) -> list[str]:
    """Return at most `most` ids of the account's conversations with such a run.

    Read from the projections `runs` and `conversations`, which may be an instant behind the log. Raises
    DatabaseUnavailable.
    """
    asked = {
        "account": account_id,
        "agent": runs.agent_id,
        "ends": list(runs.ends),
        "since": runs.since,
        "until": runs.until,
        "metadata": Jsonb(dict(runs.metadata)),
        "worst": runs.rating and runs.rating[0],
        "best": runs.rating and runs.rating[1],
        "seed": str(seed),
        "most": most,
    }
    async with acquire_connection(pool) as conn:
        found = await (
            await conn.execute(_SAMPLE + (_TAGGED if runs.metadata else "") + _PICK, asked)
        ).fetchall()
    return [conversation_id for (conversation_id,) in found]


_SAMPLE: LiteralString = """
SELECT conversation_id FROM runs
 WHERE account_id = %(account)s AND state = ANY(%(ends)s) AND conversation_id IS NOT NULL
   AND (%(agent)s::text IS NULL OR agent_id = %(agent)s)
   AND (%(since)s::text IS NULL OR requested_at >= %(since)s)
   AND (%(until)s::text IS NULL OR requested_at < %(until)s)
   AND (%(worst)s::double precision IS NULL
        OR (SELECT avg(score) FROM feedback WHERE feedback.trace_id = runs.trace_id)
           BETWEEN %(worst)s AND %(best)s::double precision)
"""

# The second condition is that of the index.
_TAGGED: LiteralString = """
   AND conversation_id IN (SELECT conversation_id FROM conversations
                            WHERE metadata @> %(metadata)s AND metadata <> '{}')
"""

_PICK: LiteralString = """
 GROUP BY conversation_id ORDER BY md5(conversation_id || %(seed)s), conversation_id LIMIT %(most)s
"""
