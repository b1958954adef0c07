"""Conversations that are removed after a while: those that no list shows, and forks that were not finished.

Unlisted ones are found by their ids (`ids.new_unlisted_id`), out of the log alone. A fork is in the table
`unfinished_forks` from its ConversationForked with `copies` until the append of its last copy, each in the
same transaction; until then nobody finds it (`database.FOUND`).
"""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import LiteralString

import msgspec

from conversations.database import FOUND_TEXT, server_now
from runtime.postgres import Pool, connection

_PAGE = 50
_BEYOND = "g"  # every id

TABLES = """
CREATE INDEX conversation_events_unlisted_idx ON conversation_events (originator_id)
 WHERE topic = 'conversation_started.v1' AND substr(originator_id, 15, 1) = '8';

CREATE TABLE unfinished_forks (
    conversation_id text PRIMARY KEY,
    version bigint NOT NULL,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT ON unfinished_forks TO agentchat_service;

CREATE FUNCTION enter_unfinished_fork() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO public.unfinished_forks (conversation_id, version)
    SELECT NEW.originator_id, NEW.originator_version + copies
      FROM (SELECT (convert_from(NEW.state, 'UTF8')::json ->> 'copies')::bigint AS copies) AS forked
     WHERE copies > 0;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION enter_unfinished_fork() FROM PUBLIC;
CREATE TRIGGER enter_unfinished_fork AFTER INSERT ON conversation_events
    FOR EACH ROW WHEN (NEW.topic = 'conversation_forked.v1') EXECUTE FUNCTION enter_unfinished_fork();

CREATE FUNCTION leave_unfinished_forks() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM public.unfinished_forks) THEN
        DELETE FROM public.unfinished_forks AS fork USING added
         WHERE fork.conversation_id = added.originator_id
           AND (added.originator_version >= fork.version OR added.topic = 'conversation_erased.v1');
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION leave_unfinished_forks() FROM PUBLIC;
CREATE TRIGGER leave_unfinished_forks AFTER INSERT ON conversation_events
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION leave_unfinished_forks();
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


_FIND: LiteralString = f"""
SELECT originator_id, account_id FROM conversation_events AS begun
 WHERE topic = 'conversation_started.v1' AND substr(originator_id, 15, 1) = '8' AND account_id IS NOT NULL
   AND originator_id > %(after)s AND originator_id < %(before)s AND {FOUND_TEXT}
   AND (%(until)s::timestamptz IS NULL OR %(until)s > coalesce((
        SELECT at FROM conversation_events WHERE originator_id = begun.originator_id
         ORDER BY originator_version DESC LIMIT 1), '-infinity'))
 ORDER BY originator_id LIMIT %(limit)s
"""  # noqa: S608 - a constant


async def abandoned_forks(pool: Pool, *, seconds: float) -> list[str]:
    """Their ids, where they were begun so long ago. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        rows = await (await conn.execute(_ABANDONED, [seconds])).fetchall()
    return [each for (each,) in rows]


_ABANDONED = """
SELECT conversation_id FROM unfinished_forks
 WHERE began_at < clock_timestamp() - make_interval(secs => %s) ORDER BY began_at LIMIT 100
"""
