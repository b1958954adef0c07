"""Conversations by what their callers show of them, for doors whose clients send the whole history each time.

A run's start holds a hash of all that was shown with its message. So a history finds its conversation by all
but its last reply, and that reply is compared with what is saved. Content alone finds nothing: the hash is of
the account, the agent and the caller's own key for the conversation too.
"""

import hashlib
from collections.abc import Sequence

import msgspec
from psycopg import sql

from contracts import events, wire
from contracts.values import ShownMessage
from conversations import mapper
from conversations.database import using
from conversations.finding import BEGUN_AT
from runtime.postgres import Pool

_LOOKED_AT = 8
"""So many runs that were asked for with the same are looked at, the newest first: replies made anew."""

INDEX = """
CREATE FUNCTION shown_with_event(state bytea) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
    AS $$ SELECT convert_from(state, 'UTF8')::json ->> 'shown_sha256' $$;
CREATE INDEX conversation_events_shown_idx ON conversation_events (shown_with_event(state), notification_id)
    WHERE topic = 'run_started.v1' AND shown_with_event(state) IS NOT NULL;
"""


class Continued(msgspec.Struct, frozen=True):
    """A conversation that is as it was shown. `reply_id` is of the message that it ends with."""

    conversation_id: str
    reply_id: str


class Asked(msgspec.Struct, frozen=True):
    """A run; `begun_at` is the version of its user message."""

    trace_id: str
    conversation_id: str
    begun_at: int


def hash_of(account_id: str, agent_id: str, key: str, messages: Sequence[ShownMessage]) -> str:
    """What is stored of what was shown: 64 hexadecimal digits. Blanks around a text make no difference."""
    texts = [(message.role, message.content.strip()) for message in messages]
    return hashlib.sha256(wire.encode((account_id, agent_id, key, texts))).hexdigest()


async def find_continued(pool: Pool, asked: str, reply: str) -> Continued | None:
    """The conversation whose last message is `reply`, to what was asked for with the hash `asked`.

    None where there is none, or it has gone on since. Raises StoreUnavailable, UnreadableEvent.
    """
    async with using(pool) as conn, conn.cursor(binary=True) as cursor:
        rows = await (await cursor.execute(_LAST_MESSAGES, [asked, _LOOKED_AT])).fetchall()
    for conversation_id, trace_id, topic, state in rows:
        last = mapper.event_of(topic, state)
        if (
            isinstance(last, events.MessageSaved)
            and (last.role, last.trace_id) == ("assistant", trace_id)
            and last.content.strip() == reply.strip()
        ):
            return Continued(conversation_id, last.message_id)
    return None


async def find_asked(pool: Pool, asked: str, seconds: float) -> Asked | None:
    """The run that was asked for last with this hash, within so many seconds; None if it came to nothing.

    Raises StoreUnavailable.
    """
    async with using(pool) as conn:
        row = await (await conn.execute(_ASKED, [asked, seconds])).fetchone()
    return None if row is None or row[-1] else Asked(*row[:-1])


_LAST_MESSAGES = """
SELECT begun.originator_id, begun.trace_id, last.topic, last.state
  FROM (SELECT originator_id, trace_of_event(state) AS trace_id FROM conversation_events
         WHERE topic = 'run_started.v1' AND shown_with_event(state) = %s
         ORDER BY notification_id DESC LIMIT %s) AS begun,
       LATERAL (SELECT topic, state FROM conversation_events
                 WHERE originator_id = begun.originator_id AND topic LIKE 'message_saved.v%%'
                 ORDER BY originator_version DESC LIMIT 1) AS last
"""

_ASKED = sql.SQL("""
SELECT trace_id, conversation_id, {begun_at}, EXISTS (
       SELECT FROM conversation_events
        WHERE topic IN ('run_completed.v1', 'run_failed.v1', 'run_cancelled.v1')
          AND topic <> 'run_completed.v1' AND trace_of_event(state) = trace_id)
  FROM (SELECT originator_id AS conversation_id, trace_of_event(state) AS trace_id FROM conversation_events
         WHERE topic = 'run_started.v1' AND shown_with_event(state) = %s
           AND (convert_from(state, 'UTF8')::json ->> 'at')::timestamptz
               > clock_timestamp() - make_interval(secs => %s)
         ORDER BY notification_id DESC LIMIT 1) AS asked
""").format(begun_at=BEGUN_AT.format(sql.SQL("trace_id")))
