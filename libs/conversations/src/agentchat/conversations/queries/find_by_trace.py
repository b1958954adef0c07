"""Find the run of a trace: its conversation, its account, and where it starts."""

from collections.abc import AsyncIterator

import msgspec
from psycopg import sql

from agentchat.contracts.values import Form
from agentchat.conversations.aggregate.conversation import Run, fold
from agentchat.conversations.event_store.event_log import Log, iterate_in_turns
from agentchat.runtime.postgres import Pool, acquire_connection

_PAGE = 500
_COUNT_SECONDS = 30.0

BEGUN = sql.SQL("""EXISTS (
    SELECT FROM readable_conversation_events WHERE topic = 'run_started.v1' AND trace_id = {}
)""")
"""SQL for whether the log has a run of a trace, to be formatted in."""

BEGUN_AT = sql.SQL("""(
    SELECT min(originator_version) - 1 FROM readable_conversation_events
     WHERE topic = 'run_started.v1' AND trace_id = {}
)""")
"""SQL for the version of a run's user message, which precedes its first start.

Null if the log has no run.
"""


class FoundRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run, or a request that waits before a busy conversation.

    `begun_at` is the version of the run's user message, `form` the requested one; both None for a request
    that waits. That has `requested_at` (seconds since 1970) and the requested `model`.
    """

    conversation_id: str
    account_id: str
    user_id: str | None
    begun_at: int | None
    form: Form | None
    requested_at: int | None = None
    model: str | None = None


async def find_run(pool: Pool, trace_id: str) -> FoundRun | None:
    """Find the run of a trace, or the waiting request. Raises DatabaseUnavailable.

    None if it is unknown or erased, or no worker has received the request yet.
    """
    async with acquire_connection(pool) as conn, conn.cursor(binary=True) as cursor:
        row = await (await cursor.execute(_FIND, [trace_id, trace_id])).fetchone()
    if row is None or row[1] is None:
        return None
    conversation_id, account_id, begun_at, state, requested_at, model, user_id = row
    return FoundRun(
        conversation_id=conversation_id,
        account_id=account_id,
        user_id=user_id,
        begun_at=begun_at,
        form=None if state is None else _decoder.decode(state).form,
        requested_at=requested_at,
        model=model,
    )


async def load_run(pool: Pool, trace_id: str) -> tuple[str, Run] | None:
    """Load a run from the log, with its conversation's id.

    Raises DatabaseUnavailable, UnreadableEvent. None if it is unknown or erased, or has not started.
    """
    found = await find_run(pool, trace_id)
    if found is None or found.begun_at is None:
        return None
    log = Log(pool)
    rows = await log.read_run_rows(found.conversation_id, trace_id, found.begun_at - 1)
    own = [event async for row in iterate_in_turns(rows) if (event := row.event).trace_id == trace_id]
    run = fold(found.conversation_id, own).run(trace_id)
    return None if run is None else (found.conversation_id, run)


async def count_runs(pool: Pool, conversation_id: str) -> int:
    """Count the runs of a conversation that have started. Raises DatabaseUnavailable."""
    async with acquire_connection(pool, seconds=_COUNT_SECONDS) as conn:
        row = await (await conn.execute(_COUNT, [conversation_id])).fetchone()
    return row[0] if row else 0


class _WithForm(msgspec.Struct):
    form: Form | None = None


_decoder = msgspec.json.Decoder(_WithForm)

_COUNT = """
SELECT count(DISTINCT trace_id) FROM conversation_events
 WHERE originator_id = %s AND topic = 'run_started.v1'
"""

_FIND = """
SELECT found.*, event_field(first.state, 'user_id')
  FROM (SELECT originator_id, account_id, originator_version - 1 AS begun_at, state, NULL::bigint, NULL
          FROM readable_conversation_events WHERE topic = 'run_started.v1' AND trace_id = %s
         UNION ALL
        SELECT conversation_id,
               (SELECT account_id FROM conversation_events
                 WHERE originator_id = conversation_id ORDER BY originator_version LIMIT 1),
               NULL, NULL, place / 1000000, model
          FROM waiting_line WHERE trace_id = %s
         ORDER BY 3 LIMIT 1) AS found
  LEFT JOIN conversation_events AS first
    ON first.originator_id = found.originator_id AND first.originator_version = 1
"""


async def iterate_conversation_ids(log: Log, account_id: str | None = None) -> AsyncIterator[str]:
    """Yield every conversation of the log, or of one account, by id; erased ones included.

    Raises DatabaseUnavailable.
    """
    after = ""
    while page := await log.list_conversation_ids(after, _PAGE, account_id):
        for each in page:
            yield each
        after = page[-1]
