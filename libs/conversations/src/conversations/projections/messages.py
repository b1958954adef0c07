"""The read model `messages`: one row a saved message, of the user and of the assistant."""

from collections.abc import Sequence

from contracts import events
from conversations.projections.projection import LoggedFact, Projection
from runtime.postgres import Connection

_TABLES = """
CREATE TABLE messages (
    message_id text PRIMARY KEY,
    conversation_id text NOT NULL,
    account_id text NOT NULL,
    role text NOT NULL,
    content text NOT NULL,
    token_count integer,
    created_at text NOT NULL,
    trace_id text NOT NULL,
    position bigint NOT NULL
);
CREATE INDEX messages_conversation_idx ON messages (conversation_id, position);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON messages TO agentchat_service;
"""


async def _apply(conn: Connection, facts: Sequence[LoggedFact]) -> None:
    rows: dict[str, list[tuple[object, ...]]] = {}
    erased: set[str] = set()
    for fact in facts:
        match fact.event:
            case events.MessageSaved() as message:
                rows.setdefault(fact.conversation_id, []).append(_row(fact, message))
            case events.ConversationErased():
                rows.pop(fact.conversation_id, None)
                erased.add(fact.conversation_id)
            case _:
                pass
    async with conn.cursor() as cursor:
        await cursor.executemany(_INSERT, [row for saved in rows.values() for row in saved])
        if erased:
            await cursor.execute("DELETE FROM messages WHERE conversation_id = ANY(%s)", [list(erased)])


def _row(fact: LoggedFact, message: events.MessageSaved) -> tuple[object, ...]:
    return (
        message.message_id,
        fact.conversation_id,
        fact.account_id,
        message.role,
        message.content,
        message.token_count,
        message.at,
        message.trace_id,
        fact.position,
    )


PROJECTION = Projection(name="messages", version=1, tables=_TABLES, apply=_apply)

_INSERT = """
INSERT INTO messages (message_id, conversation_id, account_id, role, content, token_count, created_at,
                      trace_id, position)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (message_id) DO NOTHING
"""
