"""How the rows of an erased conversation leave the log: in pieces, outside the lock that appends take.

To append ConversationErased writes the tombstone: a trigger deletes the newest events in the same
transaction, and where more are left, `unfinished_erasures` names the conversation until the projector has
deleted them, a piece a transaction. No reader sees what is left (`database.visible`). The newest go first, so
that what is left begins with the conversation's first event, which says whose it is.

The tombstone itself is deleted after TOMBSTONE_DAYS.
"""

import msgspec

from runtime.postgres import Pool, connection

FIRST_PIECE = 500
"""So many events go with the tombstone, in the transaction of the append: most conversations have fewer."""

PIECE = 2000
"""So many events go in each later transaction."""

TOMBSTONE_DAYS = 35
"""A tombstone outlives the copy of each event in EVENTS, and so a redelivery, which may come for 30 days."""

TOMBSTONES_AT_ONCE = 500

TABLES = f"""
CREATE TABLE unfinished_erasures (
    conversation_id text PRIMARY KEY,
    version bigint NOT NULL,
    position bigint NOT NULL,
    below bigint NOT NULL,
    pieces integer NOT NULL DEFAULT 1,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    worked_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT ON unfinished_erasures TO agentchat_service;

CREATE TABLE erasure_pieces (
    conversation_id text NOT NULL,
    piece integer NOT NULL,
    position bigint NOT NULL,
    positions bigint[] NOT NULL,
    trace_ids text[] NOT NULL,
    passes integer NOT NULL DEFAULT 0,
    forgotten integer NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (conversation_id, piece)
);
CREATE INDEX erasure_pieces_due_idx ON erasure_pieces (due_at);
GRANT SELECT, UPDATE, DELETE ON erasure_pieces TO agentchat_service;

CREATE FUNCTION delete_newest_events(
    conversation text, tombstone bigint, before bigint, number integer, most integer
) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lowest bigint;
BEGIN
    WITH piece AS (
        SELECT originator_version AS version FROM public.conversation_events
         WHERE originator_id = conversation AND originator_version < before
         ORDER BY originator_version DESC LIMIT most
    ), gone AS (
        DELETE FROM public.conversation_events
         WHERE originator_id = conversation AND originator_version < before
           AND originator_version >= (SELECT min(version) FROM piece)
        RETURNING originator_version AS version, notification_id AS position, trace_id
    ), copies AS (
        SELECT coalesce(array_agg(position ORDER BY position), '{{}}') AS positions,
               coalesce(array_agg(DISTINCT trace_id) FILTER (WHERE trace_id IS NOT NULL), '{{}}') AS trace_ids
          FROM gone
    ), first AS (
        INSERT INTO public.erasures (conversation_id, position, positions, trace_ids)
        SELECT conversation, tombstone, positions, trace_ids FROM copies WHERE number = 0
    ), later AS (
        INSERT INTO public.erasure_pieces (conversation_id, piece, position, positions, trace_ids)
        SELECT conversation, number, tombstone, positions, trace_ids FROM copies
         WHERE number > 0 AND cardinality(positions) > 0
    )
    SELECT min(version) INTO lowest FROM gone;
    IF EXISTS (SELECT FROM public.conversation_events
                WHERE originator_id = conversation AND originator_version < lowest) THEN
        RETURN lowest;
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION delete_newest_events(text, bigint, bigint, integer, integer) FROM PUBLIC;

CREATE FUNCTION erase_earlier_events() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    lowest bigint := public.delete_newest_events(
        NEW.originator_id, NEW.notification_id, NEW.originator_version, 0, {FIRST_PIECE});
BEGIN
    DELETE FROM public.what_if_runs WHERE conversation_id = NEW.originator_id;
    IF lowest IS NOT NULL THEN
        INSERT INTO public.unfinished_erasures (conversation_id, version, position, below)
        VALUES (NEW.originator_id, NEW.originator_version, NEW.notification_id, lowest);
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION erase_earlier_events() FROM PUBLIC;
CREATE TRIGGER erase_earlier_events AFTER INSERT ON conversation_events
    FOR EACH ROW WHEN (NEW.topic = 'conversation_erased.v1') EXECUTE FUNCTION erase_earlier_events();

CREATE FUNCTION erase_piece() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    erasure public.unfinished_erasures;
    lowest bigint;
BEGIN
    SELECT * INTO erasure FROM public.unfinished_erasures
     ORDER BY worked_at LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    lowest := public.delete_newest_events(
        erasure.conversation_id, erasure.position, erasure.below, erasure.pieces, {PIECE});
    IF lowest IS NULL THEN
        DELETE FROM public.unfinished_erasures WHERE conversation_id = erasure.conversation_id;
    ELSE
        UPDATE public.unfinished_erasures
           SET below = lowest, pieces = erasure.pieces + 1, worked_at = clock_timestamp()
         WHERE conversation_id = erasure.conversation_id;
    END IF;
    RETURN coalesce(lowest - 1, 0);
END $$;
REVOKE ALL ON FUNCTION erase_piece() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_piece() TO agentchat_service;

CREATE FUNCTION delete_old_tombstones(most integer) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    deleted bigint;
BEGIN
    WITH old AS (
        SELECT originator_id AS id FROM public.conversation_events
         WHERE topic = 'conversation_erased.v1'
           AND at < clock_timestamp() - make_interval(days => {TOMBSTONE_DAYS})
           AND notification_id < (SELECT max(notification_id) FROM public.conversation_events)
           AND originator_id NOT IN (SELECT conversation_id FROM public.unfinished_erasures)
           AND originator_id NOT IN (SELECT conversation_id FROM public.erasures)
           AND originator_id NOT IN (SELECT conversation_id FROM public.erasure_pieces)
           AND originator_id NOT IN (SELECT conversation_id FROM public.parked_events)
         LIMIT most
    )
    DELETE FROM public.conversation_events USING old WHERE originator_id = old.id;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END $$;
REVOKE ALL ON FUNCTION delete_old_tombstones(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION delete_old_tombstones(integer) TO agentchat_service;
"""  # noqa: S608 - sizes of this module


class UnfinishedErasure(msgspec.Struct, frozen=True, kw_only=True):
    """An erased conversation of which something is left: rows of the log, which no reader sees, and events of
    which EVENTS may hold copies.
    """

    conversation_id: str
    rows_left: int
    copies_left: int


async def unfinished_erasures(pool: Pool, *, limit: int) -> list[UnfinishedErasure]:
    """Those with most left first. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        rows = await (await conn.execute(_UNFINISHED, [limit])).fetchall()
    return [
        UnfinishedErasure(conversation_id=each, rows_left=rows_left, copies_left=copies_left)
        for each, rows_left, copies_left in rows
    ]


async def erase_piece(pool: Pool) -> bool:
    """Delete a piece of the one that was not worked on for longest; False where there is none.

    One that another process works on is passed over. Raises DatabaseUnavailable.
    """
    async with connection(pool) as conn:
        left = await (await conn.execute("SELECT erase_piece()")).fetchone()
    return left != (None,)


async def delete_old_tombstones(pool: Pool, *, most: int = TOMBSTONES_AT_ONCE) -> int:
    """Delete tombstones older than TOMBSTONE_DAYS and return how many; fewer than `most` are all for now.

    The newest row of the log stays: it says where the log ends. Raises DatabaseUnavailable.
    """
    async with connection(pool) as conn:
        row = await (await conn.execute("SELECT delete_old_tombstones(%s)", [most])).fetchone()
    assert row is not None, "a function gives one row"
    return int(row[0])


_UNFINISHED = """
SELECT conversation_id, sum(in_log)::bigint, sum(copies)::bigint
  FROM (SELECT conversation_id, below - 1 AS in_log, 0 AS copies FROM unfinished_erasures
         UNION ALL
        SELECT conversation_id, 0, cardinality(positions) - forgotten FROM erasures WHERE passes = 0
         UNION ALL
        SELECT conversation_id, 0, cardinality(positions) - forgotten FROM erasure_pieces
) AS parts
 GROUP BY conversation_id ORDER BY sum(in_log) DESC, sum(copies) DESC, conversation_id LIMIT %s
"""
