"""What becomes of a conversation's events once it is erased, and what is left to remove elsewhere.

To append ConversationErased is to erase: a trigger deletes the conversation's earlier events in the same
transaction and writes down, in `erasures`, whose copies are still to be removed. Another trigger refuses
whatever would come behind an erasure, so that a worker who was only paused cannot bring content back.
"""

import msgspec

from conversations.database import using
from conversations.projections import shadow
from runtime.postgres import Pool

LATE_SECONDS = 60
"""So long after the first pass a second one removes what a worker that was paused has said meanwhile."""

TABLES = """
CREATE TABLE erasures (
    conversation_id text PRIMARY KEY,
    position bigint NOT NULL,
    positions bigint[] NOT NULL,
    trace_ids text[] NOT NULL,
    passes integer NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX erasures_due_idx ON erasures (due_at);
GRANT SELECT, UPDATE, DELETE ON erasures TO agentchat_service;

CREATE INDEX conversation_events_erased_idx ON conversation_events (originator_id)
 WHERE topic = 'conversation_erased.v1';
ALTER TABLE conversation_events SET (
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0
);

CREATE FUNCTION refuse_events_after_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM added JOIN conversation_events erased USING (originator_id)
         WHERE erased.topic = 'conversation_erased.v1' AND erased.notification_id < added.notification_id
    ) THEN
        RAISE unique_violation USING MESSAGE = 'the conversation has been erased';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER refuse_events_after_erasure AFTER INSERT ON conversation_events
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_events_after_erasure();

CREATE FUNCTION erase_earlier_events() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format($sql$
        WITH gone AS (
            DELETE FROM %1$I.conversation_events
             WHERE originator_id = $1 AND originator_version < $2
            RETURNING notification_id, encode(substr(state, 1, 256), 'escape') AS start
        )
        INSERT INTO %1$I.erasures (conversation_id, position, positions, trace_ids)
        SELECT $1, $3,
               coalesce(array_agg(notification_id ORDER BY notification_id), '{}'),
               coalesce(array_agg(DISTINCT trace_id) FILTER (WHERE trace_id IS NOT NULL), '{}')
          FROM gone, substring(start FROM '"trace_id":"([^"]+)"') AS trace_id
    $sql$, TG_TABLE_SCHEMA)
    USING NEW.originator_id, NEW.originator_version, NEW.notification_id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION erase_earlier_events() FROM PUBLIC;
CREATE TRIGGER erase_earlier_events AFTER INSERT ON conversation_events
    FOR EACH ROW WHEN (NEW.topic = 'conversation_erased.v1') EXECUTE FUNCTION erase_earlier_events();
"""

PROGRESS = "ALTER TABLE erasures ADD COLUMN forgotten integer NOT NULL DEFAULT 0"


class Erasure(msgspec.Struct, frozen=True):
    """An erased conversation whose copies are to be removed: ids and places, no content.

    `position` is that of its ConversationErased in the log, `positions` are those of the events it had. The
    first `forgotten` of these have left EVENTS in the pass under way, before which there were `passes`.
    """

    conversation_id: str
    position: int
    positions: list[int]
    trace_ids: list[str]
    passes: int
    forgotten: int = 0


async def due_erasures(pool: Pool, *, limit: int) -> list[Erasure]:
    """The oldest that a pass is due for. Raises StoreUnavailable."""
    async with using(pool) as conn:
        return [Erasure(*row) for row in await (await conn.execute(_DUE, [limit])).fetchall()]


async def forget_rows(pool: Pool, erasure: Erasure) -> None:
    """Delete what this package's tables hold of the conversation beside log and read models.

    Its idempotency keys stay, so that none of its requests runs again. Raises StoreUnavailable.
    """
    async with using(pool) as conn, conn.transaction():
        for statement in _BY_TRACE:
            await conn.execute(statement, [erasure.trace_ids])
        await conn.execute("DELETE FROM parked_events WHERE conversation_id = %s", [erasure.conversation_id])
        await shadow.forget(conn, erasure.conversation_id, erasure.position)


async def note_progress(pool: Pool, erasure: Erasure, forgotten: int) -> None:
    """So many of its positions are done in this pass; whatever else is due comes before the others.

    Raises StoreUnavailable.
    """
    async with using(pool) as conn:
        await conn.execute(_PROGRESS, [forgotten, erasure.conversation_id, erasure.passes])


async def end_pass(pool: Pool, erasure: Erasure) -> None:
    """After the first pass another is due in a minute; after that one the erasure is done.

    Raises StoreUnavailable.
    """
    async with using(pool) as conn:
        if erasure.passes == 0:
            await conn.execute(_AGAIN, [LATE_SECONDS, erasure.conversation_id])
        else:
            await conn.execute("DELETE FROM erasures WHERE conversation_id = %s", [erasure.conversation_id])


_DUE = """
SELECT conversation_id, position, positions, trace_ids, passes, forgotten FROM erasures
 WHERE due_at <= clock_timestamp() ORDER BY due_at LIMIT %s
"""

_PROGRESS = """
UPDATE erasures SET forgotten = %s, due_at = clock_timestamp() WHERE conversation_id = %s AND passes = %s
"""

_AGAIN = """
UPDATE erasures
   SET passes = passes + 1, forgotten = 0, due_at = clock_timestamp() + make_interval(secs => %s)
 WHERE conversation_id = %s
"""

_BY_TRACE = (
    "DELETE FROM run_leases WHERE trace_id = ANY(%s)",
    "DELETE FROM run_requests WHERE trace_id = ANY(%s)",
    "DELETE FROM waiting_line WHERE trace_id = ANY(%s)",
)
