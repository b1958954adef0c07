"""What an erased conversation leaves goes too, after some weeks: but for one hash a day that it lived.

An erasure leaves a tombstone, the seals of what was erased, and what each run cost. Later no redelivery can
come and nobody reads them again, but for the heads of the days on which the conversation changed
(`chain.day_heads`) and an account's usage. So `compact_erasures` replaces them: for each conversation by the
last seal of each day, and for all of an account by sums of usage. Neither grows with what was erased, but for
some 50 bytes a conversation and day.

A head counts as a day's only where the day is over: of one that was taken within a day, the seals are gone.
After LEAVES_KEPT_DAYS these seals go too, so that nothing grows for ever.
"""

from typing import LiteralString

from conversations.database import REBUILD_LOCK
from runtime.postgres import Pool, connection

KEPT_DAYS = 35
"""A tombstone is kept for so long: an event's copy in EVENTS, and with it a redelivery, for 30 days."""

LEAVES_KEPT_DAYS = 400
"""What compaction leaves of a day is kept for so long, so that an audit can compare a year's heads."""

LEAVES_AT_ONCE = 100
"""So many rows of these go in a transaction, each with what AT_ONCE conversations left."""

AT_ONCE = 500
"""So many conversations go in a transaction."""

_INSERT = """\
    INSERT INTO public.compacted_erasures
           (last_position, first_position, lowest_id, highest_id, conversation_ids, positions, seals)
    SELECT max(position), min(position), (array_agg(id ORDER BY id))[1], (array_agg(id ORDER BY id DESC))[1],
           array_agg(id ORDER BY position), array_agg(position ORDER BY position),
           array_agg(seal ORDER BY position)
"""

_INSERT_PACKED = """\
    INSERT INTO public.compacted_leaves
           (last_position, first_position, lowest_id, highest_id, conversation_ids, positions, packed_seals)
    SELECT max(position), min(position), (array_agg(id ORDER BY id))[1], (array_agg(id ORDER BY id DESC))[1],
           array_agg(id ORDER BY id, position), array_agg(position ORDER BY id, position),
           string_agg(seal, '' ORDER BY id, position)
"""


# Only days of the log go that are over, and that every read model and the feed have read, so that nobody
# misses a tombstone. The newest row stays: it says where the log ends. A rebuild of `usage` would count again
# what is in the sums: none runs meanwhile, or was begun.
def _compact_function(create: str, insert: str) -> str:
    return f"""\
{create} compact_erasures(kept_days integer, most integer) RETURNS integer LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    horizon bigint;
    days bigint[];
    tombstones text[];
    traces text[];
BEGIN
    IF kept_days < {KEPT_DAYS} THEN
        RAISE check_violation USING MESSAGE = 'tombstones are kept for {KEPT_DAYS} days';
    END IF;
    IF NOT pg_try_advisory_xact_lock({REBUILD_LOCK}, hashtext('usage@rebuilding'))
       OR NOT pg_try_advisory_xact_lock({REBUILD_LOCK}, hashtext('usage@verifying'))
       OR EXISTS (SELECT FROM public.projection_positions WHERE name LIKE 'usage@%') THEN
        RETURN 0;
    END IF;
    SELECT least(
        (SELECT position FROM public.feed_days
          WHERE day > (clock_timestamp() AT TIME ZONE 'UTC')::date - kept_days ORDER BY day LIMIT 1),
        (SELECT min(coalesce(position, 0))
           FROM (SELECT name FROM public.read_models UNION ALL VALUES ('events_feed')) AS names
           LEFT JOIN public.projection_positions USING (name))
    ) INTO horizon;
    SELECT coalesce(array_agg(position ORDER BY position), '{{}}') INTO days FROM public.feed_days;
    SELECT array_agg(originator_id) INTO tombstones FROM (
        SELECT originator_id FROM public.conversation_events
         WHERE topic = 'conversation_erased.v1' AND notification_id <= horizon
           AND notification_id < (SELECT max(notification_id) FROM public.conversation_events)
           AND originator_id NOT IN (SELECT conversation_id FROM public.unfinished_erasures)
           AND originator_id NOT IN (SELECT conversation_id FROM public.erasures)
           AND originator_id NOT IN (SELECT conversation_id FROM public.erasure_pieces)
           AND originator_id NOT IN (SELECT conversation_id FROM public.parked_events)
         ORDER BY notification_id LIMIT most
    ) AS old;
    IF tombstones IS NULL THEN
        RETURN 0;
    END IF;
    SELECT array_agg(spent ->> 'trace_id') INTO traces
      FROM public.conversation_events,
           jsonb_array_elements(convert_from(state, 'UTF8')::jsonb -> 'spent') AS spent
     WHERE originator_id = ANY(tombstones) AND topic = 'conversation_erased.v1';
    WITH costs AS (
        DELETE FROM public.usage WHERE trace_id = ANY(traces) AND ended_at IS NOT NULL RETURNING *
    )
    INSERT INTO public.compacted_usage AS kept
    SELECT account_id, substr(ended_at, 1, 10), agent_id, model, coalesce(state, ''), count(*), sum(rounds),
           sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_creation_tokens)
      FROM costs GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (account_id, day, agent_id, model, state) DO UPDATE
       SET runs = kept.runs + excluded.runs,
           rounds = kept.rounds + excluded.rounds,
           input_tokens = kept.input_tokens + excluded.input_tokens,
           output_tokens = kept.output_tokens + excluded.output_tokens,
           cache_read_tokens = kept.cache_read_tokens + excluded.cache_read_tokens,
           cache_creation_tokens = kept.cache_creation_tokens + excluded.cache_creation_tokens;
    WITH erased AS (
        DELETE FROM public.conversation_events WHERE originator_id = ANY(tombstones)
        RETURNING originator_id AS id, notification_id AS position,
                  sha256(substr(hash, octet_length(hash) - 31)) AS seal
    ), sealed AS (
        DELETE FROM public.erased_links WHERE conversation_id = ANY(tombstones)
        RETURNING conversation_id AS id, positions, seals
    ), links AS (
        SELECT * FROM erased
         UNION ALL
        SELECT id, link.position, link.seal FROM sealed, unnest(positions, seals) AS link (position, seal)
    ), leaves AS (
        SELECT DISTINCT ON (id, width_bucket(position - 1, days)) id::uuid AS id, position, seal
          FROM links ORDER BY id, width_bucket(position - 1, days), position DESC
    )
{insert}      FROM leaves;
    RETURN cardinality(tombstones);
END $$;"""  # noqa: S608 - numbers and a statement of this package


TABLES = f"""
CREATE TABLE compacted_erasures (
    last_position bigint PRIMARY KEY,
    first_position bigint NOT NULL,
    lowest_id uuid NOT NULL,
    highest_id uuid NOT NULL,
    compacted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    conversation_ids uuid[] NOT NULL,
    positions bigint[] NOT NULL,
    seals bytea[] NOT NULL
);
CREATE TABLE compacted_usage (
    account_id text NOT NULL,
    day text COLLATE "C" NOT NULL,
    agent_id text NOT NULL,
    model text NOT NULL,
    state text NOT NULL,
    runs bigint NOT NULL,
    rounds bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cache_read_tokens bigint NOT NULL,
    cache_creation_tokens bigint NOT NULL,
    PRIMARY KEY (account_id, day, agent_id, model, state)
);
GRANT SELECT ON compacted_erasures, compacted_usage TO agentchat_service;

{_compact_function("CREATE FUNCTION", _INSERT)}
REVOKE ALL ON FUNCTION compact_erasures(integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION compact_erasures(integer, integer) TO agentchat_service;
"""  # noqa: S608 - numbers of this package

DROP_LEAVES_STEP = f"""
CREATE FUNCTION drop_compacted_leaves(kept_days integer, most integer) RETURNS integer LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    dropped integer;
BEGIN
    IF kept_days < {LEAVES_KEPT_DAYS} THEN
        RAISE check_violation USING MESSAGE = 'leaves are kept for {LEAVES_KEPT_DAYS} days';
    END IF;
    DELETE FROM public.compacted_erasures WHERE last_position IN (
        SELECT last_position FROM public.compacted_erasures
         WHERE last_position <= (
               SELECT position FROM public.feed_days
                WHERE day >= (clock_timestamp() AT TIME ZONE 'UTC')::date - kept_days ORDER BY day LIMIT 1)
         ORDER BY last_position LIMIT most);
    GET DIAGNOSTICS dropped = ROW_COUNT;
    RETURN dropped;
END $$;
REVOKE ALL ON FUNCTION drop_compacted_leaves(integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION drop_compacted_leaves(integer, integer) TO agentchat_service;
"""  # noqa: S608 - a number of this package

# Two leaves of a conversation next to each other repeat its id, which is compressed; a seal in an array has a
# header of 4 bytes, which is not. The view has the rows of both kinds as release 0.9.0 reads them. It adds
# nothing to `packed_seals`, by which these are read once and not for each seal.
PACK_STEP = f"""
SET LOCAL lock_timeout = '10s';
ALTER TABLE compacted_erasures RENAME TO compacted_leaves;
ALTER TABLE compacted_leaves ALTER COLUMN seals DROP NOT NULL, ADD COLUMN packed_seals bytea;
CREATE VIEW compacted_erasures AS
SELECT last_position, first_position, lowest_id, highest_id, compacted_at, conversation_ids, positions,
       coalesce(seals, (
           SELECT array_agg(substr(packed, number * 32 - 31, 32) ORDER BY number)
             FROM (SELECT packed_seals || ''::bytea AS packed OFFSET 0) AS read_once,
                  generate_series(1, cardinality(positions)) AS number
       )) AS seals
  FROM compacted_leaves;
GRANT SELECT ON compacted_erasures TO agentchat_service;
{_compact_function("CREATE OR REPLACE FUNCTION", _INSERT_PACKED)}
SET LOCAL lock_timeout TO DEFAULT;
"""  # noqa: S608 - statements of this package
"""After 0.9.0: what is compacted from now on takes a fifth less. Earlier rows stay until they go."""

INDEXES: dict[str, LiteralString] = {
    "conversation_events_tombstones_idx": (
        "ON conversation_events (notification_id) WHERE topic = 'conversation_erased.v1'"
    )
}
"""By it the oldest tombstones are found."""


async def compact_erasures(pool: Pool, *, kept_days: int = KEPT_DAYS, most: int = AT_ONCE) -> int:
    """Compact up to `most` erasures that are older than `kept_days`; returns how many. Less than `most` are
    all for now: none while `usage` is rebuilt or verified. Raises DatabaseUnavailable.
    """
    async with connection(pool) as conn:
        row = await (await conn.execute("SELECT compact_erasures(%s, %s)", [kept_days, most])).fetchone()
    assert row is not None, "a function gives one row"
    return int(row[0])


async def drop_compacted_leaves(pool: Pool, *, kept_days: int = LEAVES_KEPT_DAYS) -> int:
    """Drop what compaction left of days before the last `kept_days`, some rows of it; returns how many.

    Raises DatabaseUnavailable.
    """
    async with connection(pool) as conn:
        given = [kept_days, LEAVES_AT_ONCE]
        row = await (await conn.execute("SELECT drop_compacted_leaves(%s, %s)", given)).fetchone()
    assert row is not None, "a function gives one row"
    return int(row[0])


async def is_compacted(pool: Pool, conversation_id: str) -> bool:
    """Whether it was erased here, so long ago that its tombstone is gone too: up to LEAVES_KEPT_DAYS.

    Raises DatabaseUnavailable.
    """
    async with connection(pool) as conn:
        return await (await conn.execute(_IS_COMPACTED, {"id": conversation_id})).fetchone() == (True,)


# Ids begin with the time: few rows have the id between their lowest and highest.
_IS_COMPACTED = """
SELECT EXISTS (SELECT FROM compacted_erasures
                WHERE %(id)s::uuid BETWEEN lowest_id AND highest_id AND %(id)s::uuid = ANY(conversation_ids))
"""
