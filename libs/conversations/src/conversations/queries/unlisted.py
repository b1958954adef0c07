"""Conversations that no list shows, out of the log alone: their ids say it (`ids.new_unlisted_id`)."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import LiteralString

import msgspec

from conversations.database import FOUND_TEXT, server_now
from runtime.postgres import Pool, connection

_PAGE = 50
_BEYOND = "g"  # every id

INDEXES: dict[str, LiteralString] = {
    "conversation_events_unlisted_idx": """
    ON conversation_events (originator_id)
 WHERE topic = 'conversation_started.v1' AND substr(originator_id, 15, 1) = '8'
""",
}
"""Without those that were erased: their beginnings are gone."""


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
        async with connection(pool) as conn, conn.cursor(binary=True) as cursor:
            rows = await (await cursor.execute(_FIND, [after, before, _PAGE])).fetchall()
        if not rows:
            return
        for conversation_id, begun, last in rows:
            account_id = _stored(begun).account_id
            if account_id is not None and (until is None or _stored(last).time < until):
                yield Unlisted(conversation_id, account_id)
        after = rows[-1][0]


def _first_id(at: datetime) -> str:
    """What no id is before that was made since: they begin with their milliseconds, in hexadecimal."""
    text = f"{int(at.timestamp() * 1000):012x}"
    return f"{text[:8]}-{text[8:]}"


class _Stored(msgspec.Struct):
    """Of an event; what cannot be decoded is of long ago, and nobody's."""

    at: str = "1970-01-01T00:00:00Z"
    account_id: str | None = None

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(self.at)


def _stored(state: bytes) -> _Stored:
    try:
        return msgspec.json.decode(state, type=_Stored)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Stored()


_FIND: LiteralString = f"""
SELECT originator_id, state,
       (SELECT state FROM conversation_events WHERE originator_id = begun.originator_id
         ORDER BY originator_version DESC LIMIT 1)
  FROM conversation_events AS begun
 WHERE topic = 'conversation_started.v1' AND substr(originator_id, 15, 1) = '8'
   AND originator_id > %s AND originator_id < %s AND {FOUND_TEXT}
 ORDER BY originator_id LIMIT %s
"""  # noqa: S608 - a constant
