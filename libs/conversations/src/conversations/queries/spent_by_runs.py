"""What the runs of a conversation cost, however many there are: out of the read model of runs, and of the log
what that does not have yet.
"""

import contextlib

from contracts.values import RunSpent, Usage
from conversations.aggregate.run_usage import MAX_SPENT, Tally, merged, spent_in, tally
from conversations.database import unbounded
from conversations.errors import UnreadableEvent
from conversations.event_store.log import Log, LogEntry, in_thread_if_large
from runtime.postgres import Pool, connection

_COUNT_SECONDS = 8.0
"""A command has 12 s, COMMAND_SECONDS."""


async def spent_by_runs(pool: Pool, log: Log, conversation_id: str, account_id: str) -> tuple[RunSpent, ...]:
    """Of those that have ended; more than MAX_SPENT are merged, see RunSpent. Raises DatabaseUnavailable.

    A page of the log is in memory at a time.
    """
    position, spent, tallies = await _projected(pool, conversation_id, account_id)
    version = await log.version_at(conversation_id, position)

    def count(page: list[LogEntry]) -> None:
        for entry in page:
            with contextlib.suppress(UnreadableEvent):
                tally(tallies, conversation_id, account_id, entry.event)

    pages = log.pages(conversation_id, after_version=version)
    async with contextlib.aclosing(pages):
        async for page in pages:
            await in_thread_if_large(count, page)
    return merged([*spent, *spent_in(tallies)])


async def _projected(
    pool: Pool, conversation_id: str, account_id: str
) -> tuple[int, list[RunSpent], dict[str, Tally]]:
    """The read model's position; the runs that it has, and as tallies those of them that have not ended."""
    named = {"id": conversation_id, "apart": MAX_SPENT}
    async with connection(pool, seconds=_COUNT_SECONDS) as conn, conn.transaction():
        # The lock comes before the snapshot: what a rebuild's swap brings would be missing in it otherwise.
        await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        await unbounded(conn)
        await conn.execute("LOCK TABLE runs IN ACCESS SHARE MODE")
        row = await (await conn.execute(_POSITION, named)).fetchone()
        if row is None:
            return 0, [], {}
        many = await (await conn.execute(_ARE_MANY, named)).fetchone()
        ended = await (await conn.execute(_MERGED if many == (True,) else _APART, named)).fetchall()
        begun = await (await conn.execute(_BEGUN, named)).fetchall()
    spent = [
        RunSpent(
            trace_id=trace_id,
            agent_id=agent_id,
            model=model,
            state=state,
            ended_at=ended_at,
            rounds=rounds,
            usage=_usage(*tokens),
            runs=runs,
        )
        for trace_id, agent_id, model, state, ended_at, rounds, runs, *tokens in ended
    ]
    tallies = {
        trace_id: Tally(conversation_id, account_id, agent_id, model, rounds)
        for trace_id, agent_id, model, rounds in begun
    }
    return row[0], spent, tallies


def _usage(inputs: int, outputs: int, cache_reads: int, cache_creations: int) -> Usage:
    return Usage(
        input_tokens=inputs,
        output_tokens=outputs,
        cache_read_tokens=cache_reads,
        cache_creation_tokens=cache_creations,
    )


_POSITION = """
SELECT position FROM projection_positions WHERE name = 'runs'
"""

_ARE_MANY = """
SELECT count(*) > %(apart)s
  FROM (SELECT FROM runs WHERE conversation_id = %(id)s AND ended_at IS NOT NULL LIMIT %(apart)s + 1) AS ended
"""

_APART = """
SELECT trace_id, coalesce(agent_id, ''), coalesce(model, ''), state, ended_at, rounds, 1,
       input_tokens, output_tokens, cache_read_tokens, cache_creation_tokens
  FROM runs WHERE conversation_id = %(id)s AND ended_at IS NOT NULL ORDER BY ended_at
"""

# With the trace of the last one, which has 32 characters.
_MERGED = """
SELECT right(max(ended_at || trace_id), 32), coalesce(agent_id, ''), coalesce(model, ''), state,
       max(ended_at), sum(rounds)::bigint, count(*), sum(input_tokens)::bigint, sum(output_tokens)::bigint,
       sum(cache_read_tokens)::bigint, sum(cache_creation_tokens)::bigint
  FROM runs WHERE conversation_id = %(id)s AND ended_at IS NOT NULL
 GROUP BY agent_id, model, state, substr(ended_at, 1, 10) ORDER BY max(ended_at)
"""

_BEGUN = """
SELECT trace_id, coalesce(agent_id, ''), coalesce(model, ''), rounds
  FROM runs WHERE conversation_id = %(id)s AND ended_at IS NULL
"""
