"""Find conversations whose last message is older than an account keeps them.

One with a run that has not ended is left out, also while it waits for a person.
"""

import msgspec
from psycopg import sql
from psycopg.rows import class_row

from agentchat.contracts.retention_rule import RetentionRule
from agentchat.conversations.postgres_sessions import lift_time_limits
from agentchat.conversations.projections.conversations_table import NOT_ERASED
from agentchat.runtime.postgres import Pool, acquire_connection

_SECONDS = 60.0


class ExpiredConversation(msgspec.Struct, frozen=True):
    """A conversation and the time of its last message."""

    conversation_id: str
    updated_at: str


class ExpiredCount(msgspec.Struct, frozen=True):
    """A number of conversations, and the time of the last message in the oldest of them."""

    conversations: int
    oldest: str | None


async def list_expired(
    pool: Pool, rule: RetentionRule, before: str, *, limit: int
) -> list[ExpiredConversation]:
    """List conversations whose last message is before a time, those that began first.

    Raises DatabaseUnavailable.
    """
    named = _name_values(rule, before) | {"limit": limit}
    async with acquire_connection(pool, seconds=_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        async with conn.cursor(row_factory=class_row(ExpiredConversation)) as cursor:
            await cursor.execute(_LIST, named)
            return await cursor.fetchall()


async def count_expired(pool: Pool, rule: RetentionRule, before: str) -> ExpiredCount:
    """Count what `list_expired` lists. Raises DatabaseUnavailable."""
    async with acquire_connection(pool, seconds=_SECONDS) as conn, conn.transaction():
        await lift_time_limits(conn)
        row = await (await conn.execute(_COUNT, _name_values(rule, before))).fetchone()
    assert row is not None, "an aggregate has one row"
    return ExpiredCount(*row)


def _name_values(rule: RetentionRule, before: str) -> dict[str, object]:
    return msgspec.structs.asdict(rule) | {"other_agents": list(rule.other_agents), "before": before}


# A conversation began before its last message, so an index of its beginning finds it.
_EXPIRED = sql.SQL("""
       account_id = %(account_id)s AND listed AND created_at < %(before)s AND updated_at < %(before)s
   AND CASE WHEN %(agent_id)s::text IS NULL THEN coalesce(agent_id, '') <> ALL(%(other_agents)s)
            ELSE agent_id = %(agent_id)s END
   AND NOT EXISTS (SELECT FROM runs
                    WHERE runs.conversation_id = conversations.conversation_id AND ended_at IS NULL)
   AND {}
""").format(NOT_ERASED)

_LIST = sql.SQL("""
SELECT conversation_id, updated_at FROM conversations WHERE {} ORDER BY created_at LIMIT %(limit)s
""").format(_EXPIRED)

_COUNT = sql.SQL("SELECT count(*), min(updated_at) FROM conversations WHERE {}").format(_EXPIRED)
