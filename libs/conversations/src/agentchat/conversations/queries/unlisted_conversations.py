"""Find conversations that no list shows (`ids.make_unlisted_id`); they are removed later."""

from collections.abc import AsyncIterator

import msgspec

from agentchat.runtime.postgres import Pool, acquire_connection

_PAGE = 50


class UnlistedConversation(msgspec.Struct, frozen=True):
    """A conversation that no list shows."""

    conversation_id: str
    account_id: str


async def list_unlisted(
    pool: Pool, *, idle_seconds: float | None = None
) -> AsyncIterator[UnlistedConversation]:
    """Yield the unlisted conversations of all accounts, the oldest first.

    With `idle_seconds` those without an event for that time. Raises DatabaseUnavailable.
    """
    after = ""
    while True:
        named = {"after": after, "idle": idle_seconds, "limit": _PAGE}
        async with acquire_connection(pool) as conn:
            rows = await (await conn.execute(_FIND, named)).fetchall()
        if not rows:
            return
        for conversation_id, account_id in rows:
            yield UnlistedConversation(conversation_id, account_id)
        after = rows[-1][0]


# The log decides: the read model may be behind.
_FIND = """
SELECT conversation_id, account_id FROM conversations
 WHERE NOT listed AND conversation_id > %(after)s
   AND (%(idle)s::float8 IS NULL
        OR updated_at::timestamptz < clock_timestamp() - make_interval(secs => %(idle)s))
   AND NOT EXISTS (
       SELECT FROM conversation_events
        WHERE originator_id = conversation_id
          AND (topic = 'conversation_erased.v1' OR at > clock_timestamp() - make_interval(secs => %(idle)s)))
 ORDER BY conversation_id LIMIT %(limit)s
"""
