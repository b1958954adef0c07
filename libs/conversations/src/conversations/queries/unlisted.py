"""Conversations that no list shows, and that are removed after a while.

They are found by their ids (`ids.new_unlisted_id`), out of the log alone.
"""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import msgspec

from conversations.database import server_now
from runtime.postgres import Pool, connection

_PAGE = 50
_BEYOND = "g"  # every id

TABLES = """
CREATE INDEX conversation_events_unlisted_idx ON conversation_events (originator_id)
 WHERE topic = 'conversation_started.v1' AND substr(originator_id, 15, 1) = '8';
"""


class Unlisted(msgspec.Struct, frozen=True):
    conversation_id: str
    account_id: str


async def unlisted(pool: Pool, *, idle_seconds: float | None = None) -> AsyncIterator[Unlisted]:
    """Those that are not erased, the oldest first; or only those of which nothing was stored for so long.

    Raises DatabaseUnavailable.
    """
    until = None
    if idle_seconds is not None:
        until = datetime.fromisoformat(await server_now(pool)) - timedelta(seconds=idle_seconds)
    after, before = "", _BEYOND if until is None else _first_id(until)
    while True:
        named = {"after": after, "before": before, "until": until, "limit": _PAGE}
        async with connection(pool) as conn:
            rows = await (await conn.execute(_FIND, named)).fetchall()
        if not rows:
            return
        for conversation_id, account_id in rows:
            yield Unlisted(conversation_id, account_id)
        after = rows[-1][0]


def _first_id(at: datetime) -> str:
    """What no id is before that was made since: they begin with their milliseconds, in hexadecimal."""
    text = f"{int(at.timestamp() * 1000):012x}"
    return f"{text[:8]}-{text[8:]}"


_FIND = """
SELECT originator_id, account_id FROM readable_conversation_events AS begun
 WHERE topic = 'conversation_started.v1' AND substr(originator_id, 15, 1) = '8' AND account_id IS NOT NULL
   AND originator_id > %(after)s AND originator_id < %(before)s
   AND (%(until)s::timestamptz IS NULL OR %(until)s > coalesce((
        SELECT at FROM conversation_events WHERE originator_id = begun.originator_id
         ORDER BY originator_version DESC LIMIT 1), '-infinity'))
 ORDER BY originator_id LIMIT %(limit)s
"""
