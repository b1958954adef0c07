"""The index of the archive in Postgres, and what moves rows out of the log and back.

Nobody but the database's owner may archive: what is archived leaves the log. Services may bring it back,
since `recall_conversation` inserts exactly what was there: it verifies the chain of hashes over the rows that
it is given, up to the seal of the last link, which was taken from the log itself.

A conversation is first entered in the index, with its rows still in the log (`in_log`); they are deleted
after GRACE_SECONDS, all of a conversation in one transaction. An append that comes before takes it out of the
index again; one that comes later is refused, and its conversation has to be recalled.
"""

from conversations.chain.links import ERASED, chain_function
from conversations.database import CONVERSATION_LOCKS

LEAST_DAYS = 35
"""Only what is older is archived: EVENTS keeps 30 days, and is refilled from the log."""

RECALLED_DAYS = 30
"""What was recalled stays in the log for so long at least."""

GRACE_SECONDS = 60
"""From the index to the deletion of rows: longer than a rebuild takes for a page (`archive_log`)."""

_PIECE = 2000
"""So many rows are deleted by one statement."""

_INDEX = """
CREATE TABLE archive_files (
    name text PRIMARY KEY,
    generation integer NOT NULL DEFAULT 1,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL,
    is_complete boolean NOT NULL DEFAULT false,
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE archived_conversations (
    conversation_id text PRIMARY KEY,
    account_id text NOT NULL,
    file text NOT NULL REFERENCES archive_files (name),
    version bigint NOT NULL,
    last_position bigint NOT NULL,
    seal bytea NOT NULL,
    positions bigint[] NOT NULL,
    seals bytea[] NOT NULL,
    in_log boolean NOT NULL DEFAULT true,
    archived_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX archived_conversations_file_idx ON archived_conversations (file);
CREATE INDEX archived_conversations_in_log_idx ON archived_conversations (archived_at) WHERE in_log;
CREATE TABLE archive_removals (
    file text NOT NULL REFERENCES archive_files (name) ON DELETE CASCADE,
    conversation_id text NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (file, conversation_id)
);
CREATE TABLE archive_recalls (
    conversation_id text PRIMARY KEY,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    tries smallint NOT NULL DEFAULT 0
);
CREATE TABLE recalled_conversations (
    conversation_id text PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT ON archive_files, archived_conversations, archive_removals, recalled_conversations
   TO agentchat_service;
GRANT UPDATE (generation, is_complete), DELETE ON archive_files TO agentchat_service;
GRANT DELETE ON archive_removals TO agentchat_service;
GRANT SELECT, INSERT, UPDATE (tries), DELETE ON archive_recalls TO agentchat_service;
"""

# Rows that are recalled have their positions and hashes: only the function below inserts such.
_CHAIN = chain_function(
    "CREATE OR REPLACE FUNCTION",
    f"""IF NEW.hash IS NOT NULL THEN
        IF current_setting('agentchat.recalls', true) = 'on'
           AND pg_has_role((SELECT relowner FROM pg_catalog.pg_class WHERE oid = TG_RELID), 'MEMBER') THEN
            RETURN NEW;
        END IF;
    END IF;
    PERFORM pg_advisory_xact_lock({CONVERSATION_LOCKS}, hashtext(NEW.originator_id) & 4095);""",  # noqa: S608 - the number of a lock
)

_GUARD = """
CREATE FUNCTION leave_archive() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM added JOIN public.archived_conversations ON conversation_id = originator_id) THEN
        WITH gone AS (
            DELETE FROM public.archived_conversations
             WHERE in_log AND conversation_id IN (SELECT originator_id FROM added)
            RETURNING conversation_id, file
        )
        INSERT INTO public.archive_removals (file, conversation_id) SELECT file, conversation_id FROM gone
        ON CONFLICT DO NOTHING;
        IF EXISTS (
            SELECT FROM added JOIN public.archived_conversations ON conversation_id = originator_id
        ) THEN
            RAISE unique_violation USING MESSAGE = 'the conversation is in the archive';
        END IF;
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION leave_archive() FROM PUBLIC;
CREATE TRIGGER leave_archive AFTER INSERT ON conversation_events
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION leave_archive();
"""

# As for erasures (`compacted_erasures`): only what every read model and the feed have read, of days that are
# over. The newest row stays: it says where the log ends.
_ARCHIVE = f"""
CREATE FUNCTION archive_conversations(archive_file text, ids text[], versions bigint[], kept_days integer)
    RETURNS SETOF text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    horizon bigint;
    days bigint[];
BEGIN
    IF kept_days < {LEAST_DAYS} THEN
        RAISE check_violation USING MESSAGE = 'conversations are kept in the log for {LEAST_DAYS} days';
    END IF;
    PERFORM FROM public.archive_files WHERE name = archive_file AND NOT is_complete FOR SHARE;
    IF NOT FOUND THEN
        RAISE check_violation USING MESSAGE = 'the file is not being written any more';
    END IF;
    SELECT least(
        (SELECT position FROM public.feed_days
          WHERE day > (clock_timestamp() AT TIME ZONE 'UTC')::date - {LEAST_DAYS} ORDER BY day LIMIT 1),
        (SELECT min(coalesce(position, 0))
           FROM (SELECT name FROM public.read_models UNION ALL VALUES ('events_feed')) AS names
           LEFT JOIN public.projection_positions USING (name)),
        (SELECT max(notification_id) - 1 FROM public.conversation_events)
    ) INTO horizon;
    SELECT coalesce(array_agg(position ORDER BY position), '{{}}') INTO days FROM public.feed_days;
    PERFORM pg_advisory_xact_lock({CONVERSATION_LOCKS}, place)
       FROM (SELECT DISTINCT hashtext(id) & 4095 AS place FROM unnest(ids) AS id ORDER BY 1) AS places;
    RETURN QUERY
    WITH wanted AS (
        SELECT id, version FROM unnest(ids, versions) AS item (id, version)
         WHERE NOT EXISTS (SELECT FROM public.archived_conversations WHERE conversation_id = id)
           AND NOT EXISTS (SELECT FROM public.unfinished_forks WHERE conversation_id = id)
           AND NOT EXISTS (SELECT FROM public.parked_events WHERE conversation_id = id)
    ), rows_of AS (
        SELECT id, version, originator_version AS place, notification_id AS position, topic, state,
               sha256(substr(hash, octet_length(hash) - 31)) AS seal
          FROM wanted JOIN public.conversation_events ON originator_id = id
    ), complete AS (
        SELECT id, version, max(position) AS last_position,
               (array_agg(state) FILTER (WHERE place = 1))[1] AS first_state,
               (array_agg(state) FILTER (WHERE place = version))[1] AS last_state,
               (array_agg(seal) FILTER (WHERE place = version))[1] AS last_seal
          FROM rows_of GROUP BY id, version
        HAVING count(*) = version AND min(place) = 1 AND max(place) = version AND bool_and(seal IS NOT NULL)
           AND bool_and(topic <> '{ERASED}') AND max(position) <= horizon
    ), leaves AS (
        SELECT DISTINCT ON (id, width_bucket(position - 1, days)) id, position, seal
          FROM rows_of ORDER BY id, width_bucket(position - 1, days), position DESC
    ), by_day AS (
        SELECT id, array_agg(position ORDER BY position) AS positions,
               array_agg(seal ORDER BY position) AS seals
          FROM leaves GROUP BY id
    )
    INSERT INTO public.archived_conversations
           (conversation_id, account_id, file, version, last_position, seal, positions, seals)
    SELECT id, convert_from(first_state, 'UTF8')::json ->> 'account_id', archive_file, version, last_position,
           last_seal, positions, seals
      FROM complete JOIN by_day USING (id)
     WHERE (convert_from(last_state, 'UTF8')::json ->> 'at')::timestamptz
           < clock_timestamp() - make_interval(days => kept_days)
    RETURNING conversation_id;
    DELETE FROM public.recalled_conversations
     WHERE at < clock_timestamp() - make_interval(days => {RECALLED_DAYS});
END $$;
REVOKE ALL ON FUNCTION archive_conversations(text, text[], bigint[], integer) FROM PUBLIC;
"""  # noqa: S608 - numbers of this package

# All rows of a conversation at once, for who reads it meanwhile. It holds no lock that an append waits for,
# but that on the row of the index.
_DELETE = f"""
CREATE FUNCTION delete_archived_rows(most integer) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    each record;
    deleted bigint := 0;
BEGIN
    FOR each IN
        SELECT conversation_id AS id, version FROM public.archived_conversations
         WHERE in_log AND archived_at < clock_timestamp() - make_interval(secs => {GRACE_SECONDS})
         ORDER BY archived_at, conversation_id LIMIT 500 FOR UPDATE SKIP LOCKED
    LOOP
        EXIT WHEN deleted > 0 AND deleted + each.version > most;
        FOR below IN REVERSE each.version .. 1 BY {_PIECE} LOOP
            DELETE FROM public.conversation_events
             WHERE originator_id = each.id AND originator_version <= below
               AND originator_version > below - {_PIECE};
            IF below > {_PIECE} THEN
                PERFORM pg_sleep(0.01);
            END IF;
        END LOOP;
        DELETE FROM public.conversation_snapshots WHERE originator_id = each.id;
        UPDATE public.archived_conversations SET in_log = false WHERE conversation_id = each.id;
        deleted := deleted + each.version;
    END LOOP;
    RETURN deleted;
END $$;
REVOKE ALL ON FUNCTION delete_archived_rows(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION delete_archived_rows(integer) TO agentchat_service;
"""  # noqa: S608 - numbers of this package

# The triggers of the log's table name tables without their schema, in which no service may create anything.
_RECALL = f"""
CREATE FUNCTION recall_conversation(
    wanted text, versions bigint[], positions bigint[], topics text[], states bytea[], hashes bytea[]
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    kept public.archived_conversations;
    broken boolean;
BEGIN
    PERFORM pg_advisory_xact_lock({CONVERSATION_LOCKS}, hashtext(wanted) & 4095);
    DELETE FROM public.archived_conversations WHERE conversation_id = wanted RETURNING * INTO kept;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO public.archive_removals (file, conversation_id) VALUES (kept.file, wanted)
    ON CONFLICT DO NOTHING;
    INSERT INTO public.recalled_conversations (conversation_id) VALUES (wanted)
    ON CONFLICT (conversation_id) DO UPDATE SET at = clock_timestamp();
    IF kept.in_log THEN
        RETURN true;
    END IF;
    WITH given AS (
        SELECT *, row_number() OVER (ORDER BY version) AS place,
               lag(position) OVER (ORDER BY version) AS position_before,
               CASE WHEN octet_length(hash) > 32 THEN substr(hash, 1, octet_length(hash) - 32)
                    ELSE substr(lag(hash) OVER (ORDER BY version),
                                octet_length(lag(hash) OVER (ORDER BY version)) - 31) END AS previous
          FROM unnest(versions, positions, topics, states, hashes)
               AS row_ (version, position, topic, state, hash)
    )
    SELECT NOT coalesce(
        bool_and(version = place AND position > coalesce(position_before, 0)
                 AND (octet_length(hash) > 32) = (place = 1)
                 AND substr(hash, octet_length(hash) - 31) = sha256(previous || convert_to(
                     wanted || E'\\n' || version || E'\\n' || position || E'\\n' || topic || E'\\n', 'UTF8')
                     || state))
        AND max(version) = kept.version AND max(position) = kept.last_position
        AND bool_or(version = kept.version AND sha256(substr(hash, octet_length(hash) - 31)) = kept.seal),
        false)
      INTO broken FROM given;
    IF broken THEN
        RAISE data_corrupted USING MESSAGE = 'what is in the archive is not what was archived';
    END IF;
    PERFORM set_config('agentchat.recalls', 'on', true);
    INSERT INTO public.conversation_events
           (originator_id, originator_version, topic, state, notification_id, hash)
    SELECT wanted, version, topic, state, position, hash
      FROM unnest(versions, positions, topics, states, hashes)
           AS row_ (version, position, topic, state, hash);
    PERFORM set_config('agentchat.recalls', 'off', true);
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION recall_conversation(text, bigint[], bigint[], text[], bytea[], bytea[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION recall_conversation(text, bigint[], bigint[], text[], bytea[], bytea[])
   TO agentchat_service;
"""  # noqa: S608 - a number of this package

STEP = f"""
SET LOCAL lock_timeout = '10s';
{_INDEX}
{_CHAIN}
{_GUARD}
{_ARCHIVE}
{_DELETE}
{_RECALL}
SET LOCAL lock_timeout TO DEFAULT;
"""
