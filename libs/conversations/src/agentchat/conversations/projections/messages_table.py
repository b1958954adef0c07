"""The read model `messages`: one row for each saved message of the user or the assistant."""

from collections.abc import Sequence

from agentchat.contracts import events
from agentchat.conversations.projections.projection import LoggedFact, Projection, Statement, insert, put
from agentchat.runtime.postgres import Pool, acquire_connection

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


async def find_message(pool: Pool, message_id: str) -> tuple[str, str] | None:
    """Return the conversation and the trace of a message, None if it is unknown.

    Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        cursor = await conn.execute(
            "SELECT conversation_id, trace_id FROM messages WHERE message_id = %s", [message_id]
        )
        return await cursor.fetchone()


def _build_statements(facts: Sequence[LoggedFact]) -> list[Statement]:
    return put(
        _INSERT,
        [_build_row(fact, fact.event) for fact in facts if isinstance(fact.event, events.MessageSaved)],
    )


def _build_row(fact: LoggedFact, message: events.MessageSaved) -> dict[str, object]:
    return {
        "message_id": message.message_id,
        "conversation_id": fact.conversation_id,
        "account_id": fact.account_id,
        "role": message.role,
        "content": message.content,
        "token_count": message.token_count,
        "created_at": message.at,
        "trace_id": message.trace_id,
        "position": fact.position,
    }


PROJECTION = Projection(
    name="messages",
    tables=_TABLES,
    takes=frozenset({events.MessageSaved, events.ConversationErased}),
    takes_inherited=True,
    changes=_build_statements,
)

_INSERT = insert(
    "messages",
    "message_id text, conversation_id text, account_id text, role text, content text, token_count integer, "
    "created_at text, trace_id text, position bigint",
    "(message_id) DO NOTHING",
)
