"""The read model `usage`: what each run cost, which is added up by account, agent, model and day.

One row a run, so that facts may be taken in batches of any size, and a conversation's erasure, which repeats
what its runs cost, changes nothing that was counted before and brings what was not.
"""

from collections.abc import Sequence

import msgspec
from psycopg.rows import class_row

from conversations.aggregate.run_usage import TALLIED, Tally, tally
from conversations.projections.projection import LoggedFact, Projection, Statement, insert, put, remove
from runtime.postgres import Pool, connection

_TABLES = """
CREATE TABLE usage (
    trace_id text PRIMARY KEY,
    conversation_id text NOT NULL,
    account_id text NOT NULL,
    agent_id text NOT NULL,
    model text NOT NULL,
    state text,
    ended_at text COLLATE "C",
    rounds integer NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cache_read_tokens bigint NOT NULL,
    cache_creation_tokens bigint NOT NULL
);
CREATE INDEX usage_account_idx ON usage (account_id, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX usage_open_idx ON usage (conversation_id) WHERE ended_at IS NULL;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON usage TO agentchat_service;
"""


class UsageLine(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs that ended on one day (UTC, such as "2026-11-21") of one agent and model cost."""

    account_id: str
    day: str
    agent_id: str
    model: str
    runs: int
    failed: int
    cancelled: int
    rounds: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_creation_tokens: int

    @property
    def total(self) -> int:
        """Every token, cached or not, as a plan's month counts them."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_creation_tokens


async def lines_of(pool: Pool, month: str, account_id: str | None = None) -> list[UsageLine]:
    """The lines of a month such as "2026-11", of one account or of all, in order.

    Raises DatabaseUnavailable.
    """
    async with (
        connection(pool) as conn,
        conn.transaction(),
        conn.cursor(row_factory=class_row(UsageLine)) as cursor,
    ):
        await cursor.execute(_MEMORY)
        await cursor.execute(_LINES, {"month": month, "account_id": account_id})
        return await cursor.fetchall()


def _changes(facts: Sequence[LoggedFact]) -> list[Statement]:
    tallies: dict[str, Tally] = {}
    erased: set[str] = set()
    for fact in facts:
        if tally(tallies, fact.conversation_id, fact.account_id, fact.event):
            erased.add(fact.conversation_id)
    rows = [_row(trace_id, each) for trace_id, each in tallies.items()]
    return [*put(_UPSERT, rows), *remove(_FORGET_OPEN, erased)]


def _row(trace_id: str, each: Tally) -> dict[str, object]:
    return {
        "trace_id": trace_id,
        "conversation_id": each.conversation_id,
        "account_id": each.account_id,
        "agent_id": each.agent_id,
        "model": each.model,
        "state": each.state,
        "ended_at": each.ended_at,
        "rounds": each.rounds,
        **msgspec.structs.asdict(each.usage),
    }


PROJECTION = Projection(name="usage", tables=_TABLES, takes=TALLIED, keeps_erased=True, changes=_changes)

# What a batch does not have is as it was; a run that has ended stays as it is.
_UPSERT = insert(
    "usage",
    "trace_id text, conversation_id text, account_id text, agent_id text, model text, state text, "
    "ended_at text, rounds integer, input_tokens bigint, output_tokens bigint, cache_read_tokens bigint, "
    "cache_creation_tokens bigint",
    """(trace_id) DO UPDATE
   SET agent_id = coalesce(nullif(excluded.agent_id, ''), kept.agent_id),
       model = coalesce(nullif(excluded.model, ''), kept.model),
       state = excluded.state,
       ended_at = excluded.ended_at,
       rounds = greatest(kept.rounds, excluded.rounds),
       input_tokens = excluded.input_tokens,
       output_tokens = excluded.output_tokens,
       cache_read_tokens = excluded.cache_read_tokens,
       cache_creation_tokens = excluded.cache_creation_tokens
 WHERE kept.ended_at IS NULL""",
)

_FORGET_OPEN = "DELETE FROM usage WHERE conversation_id = ANY(%s) AND ended_at IS NULL"

# With the 4 MB that are usual Postgres sorts all runs of the month on its disk: twice the time.
_MEMORY = "SET LOCAL work_mem = '16MB'"

# "2026-11" is before, and "2026-11~" after, every time of that month.
_LINES = """
SELECT account_id, day, agent_id, model, sum(runs)::bigint AS runs,
       coalesce(sum(runs) FILTER (WHERE state = 'failed'), 0)::bigint AS failed,
       coalesce(sum(runs) FILTER (WHERE state = 'cancelled'), 0)::bigint AS cancelled,
       sum(rounds)::bigint AS rounds,
       sum(input_tokens)::bigint AS input_tokens,
       sum(output_tokens)::bigint AS output_tokens,
       sum(cache_read_tokens)::bigint AS cache_read_tokens,
       sum(cache_creation_tokens)::bigint AS cache_creation_tokens
  FROM (
    SELECT account_id, substr(ended_at, 1, 10) AS day, agent_id, model, state, 1 AS runs, rounds,
           input_tokens, output_tokens, cache_read_tokens, cache_creation_tokens
      FROM usage WHERE ended_at >= %(month)s AND ended_at < %(month)s::text || '~'
  ) AS counted
 WHERE (%(account_id)s::text IS NULL OR account_id = %(account_id)s)
 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
"""
