"""The read model `tools`: the outcome of each tool call.

One row for each call, so that the erasure of a conversation removes its rows and nothing else.
"""

from collections.abc import Sequence

from agentchat.contracts import events
from agentchat.conversations.projections.projection import LoggedFact, Projection, Statement, insert, put

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
-- A conversation's calls are found too, since Postgres skips from name to name.
CREATE INDEX tools_name_idx ON tools (name, conversation_id);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON tools TO agentchat_service;
"""


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
