"""The read model `tools`: the outcome of each tool call.

One row for each call, so that the erasure of a conversation removes its rows and nothing else.
"""

from collections.abc import Sequence

import msgspec
from psycopg.rows import class_row

from agentchat.contracts import events
from agentchat.conversations.projections.projection import LoggedFact, Projection, Statement, insert, put
from agentchat.runtime.postgres import Pool, acquire_connection

_TABLES = """
CREATE TABLE tools (
    trace_id text NOT NULL,
    call_id text NOT NULL,
    conversation_id text NOT NULL,
    account_id text NOT NULL,
    name text NOT NULL,
    called_at text COLLATE "C" NOT NULL,
    is_error boolean,
    ms integer,
    PRIMARY KEY (trace_id, call_id)
);
CREATE INDEX tools_account_idx ON tools (account_id, called_at);
CREATE INDEX tools_conversation_idx ON tools (conversation_id);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON tools TO agentchat_service;
"""


class ToolLine(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one tool on one day (UTC, such as "2026-11-21").

    `failed` returned an error, `lost` have not returned (yet). The times, in ms, are of those that returned,
    None if none did.
    """

    account_id: str
    day: str
    name: str
    calls: int
    failed: int
    lost: int
    median_ms: float | None
    p95_ms: float | None
    max_ms: int | None


async def sum_tools_of_month(pool: Pool, month: str, account_id: str | None = None) -> list[ToolLine]:
    """Sum the calls of a month such as "2026-11" by day and tool, of one account or of all.

    Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn, conn.cursor(row_factory=class_row(ToolLine)) as cursor:
        await cursor.execute(_LINES, {"month": month, "account_id": account_id})
        return await cursor.fetchall()


def _build_statements(facts: Sequence[LoggedFact]) -> list[Statement]:
    calls: dict[tuple[str, str], dict[str, object]] = {}
    results: dict[tuple[str, str], dict[str, object]] = {}
    for fact in facts:
        match fact.event:
            case events.ToolCalled() as call:
                calls.setdefault((call.trace_id, call.call_id), _build_row(fact, call))
            case events.ToolReturned() as result:
                results[result.trace_id, result.call_id] = _build_result(result)
            case _:
                pass
    return [
        *put(_INSERT, [calls[key] | results.get(key, {}) for key in calls]),
        *put(_RETURN, [results[key] for key in results if key not in calls]),
    ]


def _build_row(fact: LoggedFact, call: events.ToolCalled) -> dict[str, object]:
    return {
        "trace_id": call.trace_id,
        "call_id": call.call_id,
        "conversation_id": fact.conversation_id,
        "account_id": fact.account_id,
        "name": call.name,
        "called_at": call.at,
    }


def _build_result(result: events.ToolReturned) -> dict[str, object]:
    return {
        "trace_id": result.trace_id,
        "call_id": result.call_id,
        "is_error": result.is_error,
        "ms": result.ms,
    }


PROJECTION = Projection(
    name="tools",
    tables=_TABLES,
    takes=frozenset({events.ToolCalled, events.ToolReturned, events.ConversationErased}),
    changes=_build_statements,
)

_INSERT = insert(
    "tools",
    "trace_id text, call_id text, conversation_id text, account_id text, name text, called_at text, "
    "is_error boolean, ms integer",
    """(trace_id, call_id) DO UPDATE
   SET is_error = coalesce(excluded.is_error, kept.is_error), ms = coalesce(excluded.ms, kept.ms)""",
)

_RETURN = """
UPDATE tools AS kept SET is_error = new.is_error, ms = new.ms
  FROM json_to_recordset(%s) AS new(trace_id text, call_id text, is_error boolean, ms integer)
 WHERE kept.trace_id = new.trace_id AND kept.call_id = new.call_id
"""

# "2026-11" is before, and "2026-11~" after, every time of that month.
_LINES = """
SELECT account_id, substr(called_at, 1, 10) AS day, name, count(*) AS calls,
       count(*) FILTER (WHERE is_error) AS failed,
       count(*) FILTER (WHERE is_error IS NULL) AS lost,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS median_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) AS p95_ms,
       max(ms) AS max_ms
  FROM tools
 WHERE called_at >= %(month)s AND called_at < %(month)s::text || '~'
   AND (%(account_id)s::text IS NULL OR account_id = %(account_id)s)
 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
