"""From a trace to its run: which conversation has it, whose that is, and where in it the run begins."""

from collections.abc import AsyncIterator
from typing import LiteralString

import msgspec
from psycopg import sql

from contracts.values import Form
from conversations.aggregate.conversation import Run, fold
from conversations.database import FOUND_TEXT
from conversations.event_store.log import Log
from conversations.event_store.turns import in_turns
from runtime.postgres import Pool, connection

_PAGE = 500
_COUNT_SECONDS = 30.0

# Of a bytea in UTF-8 it is immutable, although convert_from of any encoding is not.
TABLES = """
CREATE FUNCTION trace_of_event(state bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT
    AS $$ BEGIN RETURN convert_from(state, 'UTF8')::json ->> 'trace_id'; END $$;
CREATE INDEX conversation_events_trace_idx ON conversation_events (trace_of_event(state))
    WHERE topic = 'run_started.v1';
CREATE INDEX conversation_events_end_idx ON conversation_events (trace_of_event(state))
    WHERE topic IN ('run_completed.v1', 'run_failed.v1', 'run_cancelled.v1');

CREATE FUNCTION run_is_open(trace_id text) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT EXISTS (
               SELECT FROM conversation_events
                WHERE topic = 'run_started.v1' AND trace_of_event(state) = trace_id
                  AND originator_id <> ALL (ARRAY(SELECT conversation_id FROM unfinished_erasures)))
       AND NOT EXISTS (
               SELECT FROM conversation_events
                WHERE topic IN ('run_completed.v1', 'run_failed.v1', 'run_cancelled.v1')
                  AND trace_of_event(state) = trace_id);
END;
REVOKE ALL ON FUNCTION run_is_open(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION run_is_open(text) TO agentchat_service;
"""
"""A run by its trace, where it starts and where it ends: so `Log` knows where to stop. `run_is_open` says
whether the log has a run and no end of it: for tool-runners, who may not read the log.
"""

BEGUN = sql.SQL(f"""EXISTS (
    SELECT 1 FROM conversation_events
     WHERE topic = 'run_started.v1' AND trace_of_event(state) = {{}} AND {FOUND_TEXT}
)""")  # noqa: S608 - a constant
"""SQL for whether the log has a run of a trace, which is to be formatted in."""

BEGUN_AT = sql.SQL(f"""(
    SELECT min(originator_version) - 1 FROM conversation_events
     WHERE topic = 'run_started.v1' AND trace_of_event(state) = {{}} AND {FOUND_TEXT}
)""")  # noqa: S608 - a constant
"""SQL for the version of its user message, after which it first started; null where the log has no run."""


class FoundRun(msgspec.Struct, frozen=True, kw_only=True):
    """`begun_at` is the version of the run's user message, `form` what was asked for; None for a request that
    still stands in line. Of that `requested_at` is the time (seconds since 1970), `model` what it asked.
    """

    conversation_id: str
    account_id: str
    begun_at: int | None
    form: Form | None
    requested_at: int | None = None
    model: str | None = None


async def find_run(pool: Pool, trace_id: str) -> FoundRun | None:
    """The run of a trace, or the request in line before a busy conversation. Raises DatabaseUnavailable.

    None where it is unknown or erased, or no worker has taken the request up yet.
    """
    async with connection(pool) as conn:
        row = await (await conn.execute(_FIND, [trace_id, trace_id])).fetchone()
    if row is None or row[1] is None:
        return None
    return FoundRun(**dict(zip(FoundRun.__struct_fields__, row, strict=True)))


async def load_run(pool: Pool, trace_id: str) -> tuple[str, Run] | None:
    """A run out of the log, with its conversation's id. Raises DatabaseUnavailable, UnreadableEvent.

    None where it is unknown or erased, or has not begun.
    """
    found = await find_run(pool, trace_id)
    if found is None or found.begun_at is None:
        return None
    log = Log(pool)
    rows = await log.rows_of_run(found.conversation_id, trace_id, found.begun_at - 1)
    own = [event async for row in in_turns(log, rows) if (event := row.event).trace_id == trace_id]
    run = fold(found.conversation_id, own).run(trace_id)
    return None if run is None else (found.conversation_id, run)


async def count_runs(pool: Pool, conversation_id: str) -> int:
    """How many runs of a conversation have begun. Raises DatabaseUnavailable."""
    async with connection(pool, seconds=_COUNT_SECONDS) as conn:
        row = await (await conn.execute(_COUNT, [conversation_id])).fetchone()
    return row[0] if row else 0


_COUNT = """
SELECT count(DISTINCT trace_of_event(state)) FROM conversation_events
 WHERE originator_id = %s AND topic = 'run_started.v1'
"""

_FIND: LiteralString = f"""
SELECT conversation_id,
       (SELECT convert_from(state, 'UTF8')::json ->> 'account_id' FROM conversation_events
         WHERE originator_id = conversation_id ORDER BY originator_version LIMIT 1),
       version - 1, form, requested_at, model
  FROM (SELECT originator_id AS conversation_id, originator_version AS version,
               convert_from(state, 'UTF8')::json ->> 'form' AS form,
               NULL::bigint AS requested_at, NULL AS model
          FROM conversation_events
         WHERE topic = 'run_started.v1' AND trace_of_event(state) = %s AND {FOUND_TEXT}
         UNION ALL
        SELECT conversation_id, NULL, NULL, place / 1000000, model FROM waiting_line
         WHERE trace_id = %s) AS found
 ORDER BY version LIMIT 1
"""  # noqa: S608 - a constant


async def all_ids(log: Log, account_id: str | None = None) -> AsyncIterator[str]:
    """Every conversation of the log, or of one account, by id; those erased too.

    Raises DatabaseUnavailable.
    """
    after = ""
    while page := await log.conversation_ids(after, _PAGE):
        accounts = {} if account_id is None else await log.accounts_of(page)
        for each in page:
            if account_id is None or accounts.get(each) == account_id:
                yield each
        after = page[-1]
