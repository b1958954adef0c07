"""What the log does where a standby of Postgres, or a backup, has become the primary.

An asynchronous standby may lack the last commits, which others have seen: consumers of EVENTS, and processes
in their memory. Its sequence would draw their positions again. So the first append on a timeline of Postgres
that is not the last one noted leaves positions out, and notes between which ones events may have been lost.
A promotion and a recovery to a point in time begin a timeline; a restart does not.
"""

from collections.abc import Callable

import msgspec

from runtime.postgres import Connection, Pool, connection

LEFT_OUT = 1_000_000
"""More than are appended while a standby lags behind; 2^53 of them allow nine billion promotions."""

_SEQUENCE = "public.conversation_events_notification_id_seq"
_CURRENT = "('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::integer"
_NOTED = "SELECT timeline FROM public.log_timelines ORDER BY first_position DESC LIMIT 1"

# A trigger, so that whoever appends has left them out. Its name is before that of `register_append`, since
# who has registered waits for nobody. The check costs 20 microseconds a statement. An append that is refused
# has set the sequence all the same, and the next one finds it so. The sequence goes on in its own steps, by
# which those of several cells may draw positions that no other draws.
STEP = f"""
CREATE TABLE log_timelines (
    first_position bigint PRIMARY KEY,
    last_position bigint NOT NULL,
    timeline integer NOT NULL,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT ON log_timelines TO agentchat_service;
INSERT INTO log_timelines (first_position, last_position, timeline) SELECT 1, 0, {_CURRENT};

CREATE FUNCTION begin_timeline(seen bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    head bigint;
    first bigint;
    drawn bigint;
    step bigint;
    steps bigint;
BEGIN
    LOCK TABLE public.log_timelines IN SHARE ROW EXCLUSIVE MODE;
    IF ({_NOTED}) = {_CURRENT} THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(max(notification_id), 0) INTO head FROM public.conversation_events;
    SELECT last_value, seqincrement INTO drawn, step
      FROM {_SEQUENCE}, pg_sequence WHERE seqrelid = '{_SEQUENCE}'::regclass;
    steps := ceil(greatest(greatest(seen, head) + {LEFT_OUT} - drawn, 0)::numeric / step);
    first := setval('{_SEQUENCE}', drawn + steps * step) + step;
    INSERT INTO public.log_timelines (first_position, last_position, timeline)
    VALUES (first, head, {_CURRENT});
    RETURN first;
END $$;
REVOKE ALL ON FUNCTION begin_timeline(bigint) FROM PUBLIC;

CREATE FUNCTION note_timeline() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF ({_NOTED}) IS DISTINCT FROM {_CURRENT} THEN
        PERFORM public.begin_timeline(0);
    END IF;
    RETURN NULL;
END $$;
SET LOCAL lock_timeout = '10s';
CREATE TRIGGER note_timeline BEFORE INSERT ON conversation_events
    FOR EACH STATEMENT EXECUTE FUNCTION note_timeline();
SET LOCAL lock_timeout TO DEFAULT;
"""  # noqa: S608 - our own parts


class TimelineGap(msgspec.Struct, frozen=True, kw_only=True):
    """Positions that no event of the log has: those after `last_position` and before `first_position`.

    An event that somebody has seen there was lost.
    """

    last_position: int
    first_position: int


async def left_out(pool: Pool) -> list[TimelineGap]:
    """In ascending order, one for each time that a timeline began. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        rows = await (await conn.execute(_LEFT_OUT)).fetchall()
    return [TimelineGap(last_position=last, first_position=first) for last, first in rows]


class TimelineWatch:
    """Calls `changed` where a connection is to another timeline than the one before it.

    What this process holds of the log may then never have been stored.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._timeline: int | None = None

    async def connected(self, conn: Connection) -> None:
        """For each new connection of a pool. Raises psycopg.Error."""
        row = await (await conn.execute(_TIMELINE)).fetchone()
        timeline = row[0] if row else None
        if self._timeline not in (None, timeline):
            self._changed()
        self._timeline = timeline


_LEFT_OUT = (
    "SELECT last_position, first_position FROM log_timelines"
    " WHERE first_position > last_position + 1 ORDER BY first_position"
)
_TIMELINE = f"SELECT {_CURRENT}".encode()
