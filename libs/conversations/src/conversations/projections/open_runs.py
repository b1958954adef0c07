"""The read model `open_runs`: the runs that have begun and have no end yet, for the sweeper."""

from collections.abc import Sequence

from contracts import events
from conversations.projections.projection import LoggedFact, Projection, put
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


async def _apply(conn: Connection, facts: Sequence[LoggedFact]) -> None:
    begun: dict[str, dict[str, object]] = {}
    ended: set[str] = set()
    erased: set[str] = set()
    for fact in facts:
        match fact.event:
            case events.MessageSaved(role="user") as message:
                begun[message.trace_id] = _row(fact, message)
            case events.RunCompleted() | events.RunFailed() | events.RunCancelled():
                # Most runs begin and end within one batch and never come into the table.
                begun.pop(fact.event.trace_id, None)
                ended.add(fact.event.trace_id)
            case events.ConversationErased():
                erased.add(fact.conversation_id)
            case _:
                pass
    await put(conn, _INSERT, list(begun.values()))
    if ended:
        await conn.execute("DELETE FROM open_runs WHERE trace_id = ANY(%s)", [list(ended)])
    if erased:
        await conn.execute("DELETE FROM open_runs WHERE conversation_id = ANY(%s)", [list(erased)])


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
    version=1,
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
    apply=_apply,
)

_INSERT = """
INSERT INTO open_runs (trace_id, conversation_id, account_id, agent_id, started_at)
SELECT * FROM json_to_recordset(%s) AS new(
       trace_id text, conversation_id text, account_id text, agent_id text, started_at timestamptz)
ON CONFLICT (trace_id) DO NOTHING
"""
