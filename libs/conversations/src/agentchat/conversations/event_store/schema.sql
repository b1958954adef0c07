-- The event table, the leases of runs, and the one statement that appends events.

-- As the eventsourcing library's recorder would create it, and three columns more: the conversation's account, and
-- the trace and time of the event. They are NULL where the event's JSON does not name them.
CREATE TABLE conversation_events (
    originator_id text NOT NULL,
    originator_version bigint NOT NULL,
    topic text,
    state bytea,
    notification_id bigint NOT NULL,
    account_id text,
    trace_id text,
    at timestamptz,
    PRIMARY KEY (originator_id, originator_version)
) WITH (
    autovacuum_enabled = true,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_analyze_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.01
);
CREATE SEQUENCE conversation_events_notification_id_seq OWNED BY conversation_events.notification_id;
ALTER TABLE conversation_events
    ALTER COLUMN notification_id SET DEFAULT nextval('conversation_events_notification_id_seq');
CREATE UNIQUE INDEX conversation_events_notification_id_idx ON conversation_events (notification_id);
-- Times nearly follow positions: a few bytes find the events since a day.
CREATE INDEX conversation_events_at_idx ON conversation_events USING brin (at);
-- A run by its trace: where it starts and where it ends.
CREATE INDEX conversation_events_runs_idx ON conversation_events (trace_id)
 WHERE topic IN ('run_started.v1', 'run_completed.v1', 'run_failed.v1', 'run_cancelled.v1');
-- A field of an event's JSON, for the indexes of runs by what was shown and of approvals by their ids.
CREATE FUNCTION event_field(state bytea, field text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT
    AS $$ BEGIN RETURN convert_from(state, 'UTF8')::json ->> field; END $$;
CREATE INDEX conversation_events_shown_idx ON conversation_events (event_field(state, 'shown_sha256'), notification_id)
 WHERE topic = 'run_started.v1' AND event_field(state, 'shown_sha256') IS NOT NULL;
CREATE INDEX conversation_events_decision_idx ON conversation_events (event_field(state, 'approval_id'))
 WHERE topic IN ('approval_requested.v1', 'elicitation_requested.v1', 'client_tool_requested.v1');
CREATE INDEX conversation_events_feedback_idx ON conversation_events (originator_id, originator_version)
 WHERE topic IN ('feedback_given.v1', 'feedback_withdrawn.v1');
CREATE INDEX conversation_events_erased_idx ON conversation_events (originator_id)
 WHERE topic = 'conversation_erased.v1';
GRANT SELECT ON conversation_events TO agentchat_service;

CREATE TABLE run_leases (
    trace_id text PRIMARY KEY,
    attempt integer NOT NULL,
    worker text NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE TABLE waiting_line (
    trace_id text PRIMARY KEY,
    conversation_id text NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    worker text NOT NULL,
    expires_at timestamptz NOT NULL,
    account_id text,
    model text
);
CREATE INDEX waiting_line_conversation_idx ON waiting_line (conversation_id, place);
CREATE INDEX waiting_line_account_idx ON waiting_line (account_id);
CREATE TABLE availability (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    since timestamptz NOT NULL,
    noted_at timestamptz NOT NULL
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE, DELETE ON run_leases, waiting_line TO agentchat_service;
GRANT SELECT, INSERT, UPDATE ON availability TO agentchat_service;

-- Appends of different conversations do not wait for each other and commit in any order. Before an append draws its
-- positions it registers: it takes a shared advisory lock whose number is the last position drawn, and keeps it until
-- its commit can be seen. So every position that an append under way draws is above the number it registered, and
-- `settled_position()`, the least of these numbers and of the last position drawn, is a position at or below which no
-- event is appended any more. It may go back, because an append may register a number that others have passed
-- meanwhile; this harms nobody who continues after a position of their own.
--
-- A reader asks for the settled position in one statement and reads the page up to it in the next, at READ COMMITTED,
-- on the primary: in one statement the page would lack what was committed in between.
--
-- An append registers by a trigger of its insert, after the waits for leases and for the locks of conversations: an
-- append that has registered waits for nobody, since that would hold up all readers.
CREATE FUNCTION register_append() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(
        1073741824::bigint << 32
        | coalesce(pg_sequence_last_value('public.conversation_events_notification_id_seq'), 0));
    RETURN NULL;
END $$;
CREATE TRIGGER register_append BEFORE INSERT ON conversation_events
    FOR EACH STATEMENT EXECUTE FUNCTION register_append();

CREATE FUNCTION settled_position() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    drawn bigint;
    lowest bigint;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = 'the log is followed on the primary: a standby does not know which appends run';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE invalid_transaction_state USING MESSAGE = 'the log is followed at READ COMMITTED';
    END IF;
    drawn := coalesce(pg_sequence_last_value('public.conversation_events_notification_id_seq'), 0);
    SELECT min((classid::bigint - 1073741824 << 32) + objid::bigint) INTO lowest FROM pg_locks
     WHERE locktype = 'advisory' AND objsubid = 1
       AND classid::bigint BETWEEN 1073741824 AND 1073741824 + 65535
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN least(drawn, lowest);
END $$;
REVOKE ALL ON FUNCTION settled_position() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION settled_position() TO agentchat_service;
