-- Append the events of many conversations: the only way for a service to store events (append_statement.py).
--
-- Appends of one conversation take turns by one of 4,096 advisory locks; after the lock the statement sees every earlier
-- append. If not `waits`, an item whose lock another append holds is left out and returned as `blocked`, so that it alone
-- has to wait. The newest version is read by max(), which uses the index whatever the planner knows of the table.
-- Nothing is stored after an erasure. The end of a run deletes the secrets of its request. leases.py and waiting_line.py have the rules of leases and of the waiting line.
-- An item that does not fit is left out, and its worker finds out why.
CREATE FUNCTION append_events(
    steady_seconds float8, break_seconds float8, clock_seconds float8,
    conversation_ids text[], account_ids text[], expected bigint[], lease_traces text[], workers text[],
    lease_seconds float8[], known_at text[], fit boolean[],
    items integer[], versions bigint[], topics text[], states bytea[], trace_ids text[], ats timestamptz[],
    waits boolean
) RETURNS TABLE (appended_conversation text, leased_at text, blocked boolean) LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    held integer[] := '{}';
    ends constant text[] := '{run_completed.v1,run_failed.v1,run_cancelled.v1}';
BEGIN
    IF waits THEN
        PERFORM pg_advisory_xact_lock(1634165604, place)
           FROM (SELECT DISTINCT hashtext(id) & 4095 AS place FROM unnest(conversation_ids) AS id ORDER BY 1)
                AS places;
    ELSE
        held := ARRAY(
            SELECT place
              FROM (SELECT DISTINCT hashtext(id) & 4095 AS place FROM unnest(conversation_ids) AS id) AS places
             WHERE NOT pg_try_advisory_xact_lock(1634165604, place));
        RETURN QUERY SELECT id, NULL::text, true FROM unnest(conversation_ids) AS id
                      WHERE hashtext(id) & 4095 = ANY (held);
    END IF;
    RETURN QUERY
    WITH asked AS (
        SELECT *
          FROM unnest(conversation_ids, account_ids, expected, lease_traces, workers, lease_seconds, known_at, fit)
               WITH ORDINALITY
               AS item (conversation_id, account_id, version, trace_id, worker, seconds, known_at, fits, number)
         WHERE hashtext(conversation_id) & 4095 <> ALL (held) AND version = (
               SELECT coalesce(max(originator_version), 0) FROM conversation_events
                WHERE originator_id = conversation_id)
           AND NOT EXISTS (
               SELECT FROM conversation_events
                WHERE originator_id = conversation_id AND topic = 'conversation_erased.v1')
    ), leased AS (
        INSERT INTO run_leases AS held (trace_id, attempt, worker, expires_at)
        SELECT trace_id, 1, worker, clock_timestamp() + make_interval(secs => seconds) FROM asked
         WHERE seconds IS NOT NULL AND fits
           AND abs(extract(epoch FROM statement_timestamp() - known_at::timestamptz)) <= clock_seconds
           AND NOT EXISTS (
               SELECT FROM waiting_line other
                WHERE other.conversation_id = asked.conversation_id AND other.trace_id <> asked.trace_id
                  AND other.expires_at > clock_timestamp())
         ORDER BY trace_id
        ON CONFLICT (trace_id) DO UPDATE
           SET attempt = held.attempt + 1, worker = excluded.worker, expires_at = excluded.expires_at
         WHERE held.expires_at <= clock_timestamp()
           AND EXISTS (
               SELECT FROM availability
                WHERE since <= clock_timestamp() - make_interval(secs => steady_seconds)
                  AND abs(extract(epoch FROM clock_timestamp() - noted_at)) <= break_seconds)
        RETURNING trace_id,
                  to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS leased_at
    ), accepted AS (
        SELECT asked.*, leased_at FROM asked LEFT JOIN leased USING (trace_id)
         WHERE seconds IS NULL OR leased_at IS NOT NULL
    ), stored AS (
        INSERT INTO conversation_events
               (originator_id, originator_version, topic, state, account_id, trace_id, at)
        SELECT conversation_id, event.version, topic, state,
               coalesce(accepted.account_id, (
                   SELECT earlier.account_id FROM conversation_events earlier
                    WHERE earlier.originator_id = conversation_id ORDER BY earlier.originator_version LIMIT 1)),
               event.trace_id, event.at
          FROM unnest(items, versions, topics, states, trace_ids, ats) WITH ORDINALITY
               AS event (item, version, topic, state, trace_id, at, place)
          JOIN accepted ON number = item
         ORDER BY place
    ), released AS (
        DELETE FROM run_leases held USING accepted
         WHERE seconds IS NULL AND held.trace_id = accepted.trace_id AND held.worker = accepted.worker
    ), forgotten AS (
        DELETE FROM run_secrets secret
         USING unnest(items, topics, trace_ids) AS event (item, topic, trace_id) JOIN accepted ON number = item
         WHERE topics && ends AND topic = ANY (ends) AND secret.trace_id = event.trace_id
    )
    SELECT conversation_id, leased_at, false FROM accepted;
END $$;
REVOKE ALL ON FUNCTION append_events(
    float8, float8, float8, text[], text[], bigint[], text[], text[], float8[], text[], boolean[],
    integer[], bigint[], text[], bytea[], text[], timestamptz[], boolean
) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION append_events(
    float8, float8, float8, text[], text[], bigint[], text[], text[], float8[], text[], boolean[],
    integer[], bigint[], text[], bytea[], text[], timestamptz[], boolean
) TO agentchat_service;
