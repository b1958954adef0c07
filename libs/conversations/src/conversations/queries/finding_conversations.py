"""Conversations that an operator looks for: of all accounts, by what the read models have of them."""

from collections.abc import Mapping

import msgspec
from psycopg import sql
from psycopg.types.json import Jsonb

from conversations.database import unbounded
from runtime.postgres import Pool, connection

SEARCH_SECONDS = 20.0
"""A search for a text reads messages, the newest conversations first, for so long at most."""


class FoundConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, as lists have it; times are ISO 8601 UTC. `agent_id` answered last."""

    id: str
    account_id: str
    title: str | None
    agent_id: str | None
    message_count: int
    created_at: str
    updated_at: str
    metadata: dict[str, str]


class ConversationFilter(msgspec.Struct, frozen=True, kw_only=True):
    """None: any. `since` and `until` bound the last message: [since, until), ISO 8601 UTC.

    `end` is the state of one of its runs, `tool` the name of one that was called in it. `text` stands in its
    title, in a message or in a value of its metadata, whatever the case.
    """

    account_id: str | None = None
    agent_id: str | None = None
    since: str | None = None
    until: str | None = None
    end: str | None = None
    tool: str | None = None
    metadata: Mapping[str, str] = {}
    text: str | None = None


async def find_conversations(
    pool: Pool, wanted: ConversationFilter, *, before: tuple[str, str] | None = None, limit: int
) -> list[FoundConversation]:
    """Up to `limit`, the one that began last first; none that was erased.

    `before` is (created_at, id) of the last one of the page before. Raises DatabaseUnavailable, also where a
    search takes too long.
    """
    fields = msgspec.structs.asdict(wanted)
    text = fields.pop("text")
    values = fields | {
        "metadata": Jsonb(dict(wanted.metadata)) if wanted.metadata else None,
        "pattern": None if text is None else f"%{_escaped(text)}%",
        "id": None if text is None else text.lower(),
        "created": before[0] if before else None,
        "last": before[1] if before else None,
        "limit": limit,
    }
    conditions = [condition for name, condition in _CONDITIONS.items() if values[name] is not None]
    query = sql.SQL(" AND ").join([_SELECT, *conditions]) + _ORDER
    async with connection(pool, seconds=SEARCH_SECONDS) as conn, conn.transaction():
        await unbounded(conn)
        rows = await (await conn.execute(query, values)).fetchall()
    names = FoundConversation.__struct_fields__
    return [FoundConversation(**dict(zip(names, row, strict=True))) for row in rows]


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")


_SELECT = sql.SQL("""
SELECT conversation_id, account_id, coalesce(given_title, title), agent_id, message_count, created_at,
       updated_at, metadata
  FROM conversations
 WHERE NOT EXISTS (SELECT FROM conversation_events
                    WHERE originator_id = conversation_id AND topic = 'conversation_erased.v1')
   AND conversation_id <> ALL (ARRAY(SELECT conversation_id FROM unfinished_forks))""")
_CONDITIONS = {
    "account_id": sql.SQL("account_id = %(account_id)s"),
    "agent_id": sql.SQL(
        "conversation_id IN (SELECT conversation_id FROM runs WHERE agent_id = %(agent_id)s"
        " AND account_id = conversations.account_id)"
    ),
    "since": sql.SQL("updated_at >= %(since)s"),
    "until": sql.SQL("updated_at < %(until)s"),
    "end": sql.SQL(
        "EXISTS (SELECT FROM runs WHERE runs.conversation_id = conversations.conversation_id"
        " AND state = %(end)s)"
    ),
    "tool": sql.SQL(
        "EXISTS (SELECT FROM tools WHERE tools.conversation_id = conversations.conversation_id"
        " AND name = %(tool)s)"
    ),
    # The second condition is that of the index.
    "metadata": sql.SQL("metadata @> %(metadata)s AND metadata <> '{}'"),
    "created": sql.SQL("(created_at, conversation_id) < (%(created)s, %(last)s)"),
    "pattern": sql.SQL(
        "(coalesce(given_title, title) ILIKE %(pattern)s OR conversation_id = %(id)s"
        " OR EXISTS (SELECT FROM jsonb_each_text(metadata) WHERE value ILIKE %(pattern)s)"
        " OR EXISTS (SELECT FROM messages WHERE messages.conversation_id = conversations.conversation_id"
        " AND (content ILIKE %(pattern)s OR trace_id = %(id)s OR message_id = %(id)s)))"
    ),
}
_ORDER = sql.SQL(" ORDER BY created_at DESC, conversation_id DESC LIMIT %(limit)s")
