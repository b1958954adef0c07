"""The read model `open_runs`: the runs that have begun and have no end yet, for the sweeper."""

from collections.abc import Sequence

from contracts import events
from conversations.projections.projection import LoggedFact, Projection, Statement, insert, put, remove
from runtime.postgres import Connection

_TABLES = """
CREATE TABLE open_runs (
    trace_id text PRIMARY KEY,
    conversation_id text NOT NULL,
    account_id text NOT NULL,
    agent_id text NOT NULL,
    started_at timestamptz NOT NULL
);
CREATE INDEX open_runs_conversation_idx ON open_runs (conversation_id);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON open_runs TO agentchat_service;
"""


async def open_runs_of(
    conn: Connection, account_id: str, agent_id: str, *, limit: int
) -> tuple[int, tuple[str, ...]]:
    """How many of an account's runs an agent is at, and the trace ids of those that began first."""
    cursor = await conn.execute(_OF_AGENT, [account_id, agent_id, limit])
    rows = await cursor.fetchall()
    return (rows[0][0] if rows else 0), tuple(row[1] for row in rows)


def _changes(facts: Sequence[LoggedFact]) -> list[Statement]:
    begun: dict[str, dict[str, object]] = {}
    ended: set[str] = set()
    for fact in facts:
        match fact.event:
            case events.MessageSaved(role="user") as message:
                begun[message.trace_id] = _row(fact, message)
            case events.RunCompleted() | events.RunFailed() | events.RunCancelled():
                # Most runs begin and end within one batch and never come into the table.
                if begun.pop(fact.event.trace_id, None) is None:
                    ended.add(fact.event.trace_id)
            case _:
                pass
    return [*put(_INSERT, list(begun.values())), *remove(_END, ended)]


def _row(fact: LoggedFact, message: events.MessageSaved) -> dict[str, object]:
    return {
        "trace_id": message.trace_id,
        "conversation_id": fact.conversation_id,
        "account_id": fact.account_id,
        "agent_id": message.agent_id,
        "started_at": message.at,
    }


PROJECTION = Projection(
    name="open_runs",
    tables=_TABLES,
    takes=frozenset(
        {
            events.MessageSaved,
            events.RunCompleted,
            events.RunFailed,
            events.RunCancelled,
            events.ConversationErased,
        }
    ),
    changes=_changes,
)

_OF_AGENT = """
SELECT count(*) OVER (), trace_id FROM open_runs
 WHERE account_id = %s AND agent_id = %s ORDER BY started_at, trace_id LIMIT %s
"""

_INSERT = insert(
    "open_runs",
    "trace_id text, conversation_id text, account_id text, agent_id text, started_at timestamptz",
    "(trace_id) DO NOTHING",
)

_END = "DELETE FROM open_runs WHERE trace_id = ANY(%s)"
