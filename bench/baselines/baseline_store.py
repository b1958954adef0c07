"""Messages in Postgres: one round trip before the model call, one after it. Statements are prepared."""

import uuid

import asyncpg

_TABLE = """
CREATE TABLE IF NOT EXISTS chat_messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id uuid NOT NULL,
    role text NOT NULL,
    content text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS chat_messages_of ON chat_messages (conversation_id, id);
"""
_SAVE = "INSERT INTO chat_messages (conversation_id, role, content) VALUES ($1, $2, $3)"
# A statement does not see what it inserts itself, so the history is what was there before.
_SAVE_AND_READ = f"""
WITH saved AS ({_SAVE})
SELECT role, content FROM chat_messages WHERE conversation_id = $1 ORDER BY id
"""


class Store:
    """The messages of all conversations."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    @classmethod
    async def open(cls, database_url: str) -> "Store":
        pool = await asyncpg.create_pool(database_url, min_size=10, max_size=10)
        await pool.execute(_TABLE)
        return cls(pool)

    async def begin(
        self, conversation: uuid.UUID | None, message: str
    ) -> tuple[uuid.UUID, list[dict[str, str]]]:
        """Save the user's message; returns the conversation and all its messages."""
        sent = {"role": "user", "content": message}
        if conversation is None:
            conversation = uuid.uuid4()
            await self._pool.execute(_SAVE, conversation, "user", message)
            return conversation, [sent]
        rows = await self._pool.fetch(_SAVE_AND_READ, conversation, "user", message)
        return conversation, [*({"role": role, "content": content} for role, content in rows), sent]

    async def end(self, conversation: uuid.UUID, reply: str) -> None:
        await self._pool.execute(_SAVE, conversation, "assistant", reply)
