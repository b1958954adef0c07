-- name: read
SELECT notification_id, originator_id, originator_version, topic,
       CASE WHEN topic = ANY(%s) THEN ''::bytea ELSE state END, account_id,
       topic <> 'conversation_erased.v1'
       AND (SELECT true FROM conversation_events AS erased
             WHERE erased.originator_id = measured.originator_id AND erased.topic = 'conversation_erased.v1'
             LIMIT 1) IS NOT NULL,
       found
  FROM (SELECT *, count(*) OVER () AS found,
               sum(octet_length(state)) OVER (ORDER BY notification_id) - octet_length(state) AS before
          FROM (SELECT * FROM conversation_events
                 WHERE notification_id > %s AND notification_id <= %s
                 ORDER BY notification_id LIMIT %s) AS page
       ) AS measured
 WHERE before < %s ORDER BY notification_id

-- name: rows
-- The size of a value that is stored out of line is known without fetching it.
SELECT notification_id, originator_id, originator_version, topic, state, account_id
  FROM (SELECT *, sum(octet_length(state)) OVER (ORDER BY originator_version) - octet_length(state) AS before
          FROM (SELECT * FROM readable_conversation_events
                 WHERE originator_id = %s AND originator_version > %s
                   AND originator_version <= coalesce(%s::bigint, 9223372036854775807)
                 ORDER BY originator_version LIMIT %s) AS page
       ) AS measured
 WHERE before < %s ORDER BY originator_version

-- name: rows_of_run
-- A run's start and end by an index of the trace. Its message is before its start.
WITH begun AS MATERIALIZED (
     SELECT originator_id AS id, originator_version AS version FROM readable_conversation_events
      WHERE trace_id = %(trace)s AND topic = 'run_started.v1'
), ended AS MATERIALIZED (
     SELECT originator_id AS id, originator_version AS version FROM readable_conversation_events
      WHERE trace_id = %(trace)s AND topic IN ('run_completed.v1', 'run_failed.v1', 'run_cancelled.v1')
)
SELECT notification_id, originator_id, originator_version, topic, state, account_id
  FROM readable_conversation_events
 WHERE originator_id = %(conversation)s
   AND originator_version > coalesce(
       %(after)s::bigint, (SELECT min(version) - 2 FROM begun WHERE id = %(conversation)s))
   AND originator_version <= coalesce(
       (SELECT min(version) FROM ended WHERE id = %(conversation)s), 9223372036854775807)
   AND topic <> 'conversation_erased.v1' AND topic NOT LIKE 'conversation_described.v%%'
   AND topic NOT LIKE 'feedback_given.v%%' AND topic NOT LIKE 'feedback_withdrawn.v%%'
 UNION ALL
SELECT notification_id, originator_id, originator_version, topic, state, account_id
  FROM conversation_events
 WHERE originator_id = %(conversation)s AND topic = 'conversation_erased.v1'
 ORDER BY originator_version

-- name: is_under_way
SELECT EXISTS (SELECT FROM readable_conversation_events
                WHERE trace_id = %(trace)s AND originator_id = %(conversation)s AND topic = 'run_started.v1')
   AND NOT EXISTS (SELECT FROM readable_conversation_events
                    WHERE trace_id = %(trace)s AND originator_id = %(conversation)s
                      AND topic IN ('run_completed.v1', 'run_failed.v1', 'run_cancelled.v1'))

-- name: has_message_since
SELECT EXISTS (
       SELECT FROM conversation_events
        WHERE originator_id = %(conversation)s AND topic LIKE 'message_saved.v%%'
          AND at >= %(since)s::timestamptz)

-- name: newest_run
-- The last event has the version, whatever it is. A message that steers is within its run.
WITH last AS (
     SELECT max(originator_version) AS version FROM conversation_events
      WHERE originator_id = %(conversation)s
)
SELECT notification_id, originator_id, originator_version, topic, state, account_id
  FROM readable_conversation_events
 WHERE originator_id = %(conversation)s
   AND originator_version >= coalesce(
       (SELECT originator_version FROM readable_conversation_events
         WHERE originator_id = %(conversation)s AND topic LIKE 'message_saved.v%%'
           AND position('"steers":"'::bytea IN state) = 0
         ORDER BY originator_version DESC LIMIT 1), (SELECT version FROM last))
   AND (topic NOT LIKE 'conversation_described.v%%' AND topic NOT LIKE 'feedback_given.v%%'
        AND topic NOT LIKE 'feedback_withdrawn.v%%' OR originator_version = (SELECT version FROM last))
 ORDER BY originator_version

-- name: at_versions
SELECT notification_id, originator_id, originator_version, topic, state, account_id
  FROM unnest(%s::text[], %s::bigint[]) AS wanted (id, version)
  JOIN readable_conversation_events ON originator_id = wanted.id AND originator_version = wanted.version

-- name: head
SELECT max(notification_id) FROM conversation_events

-- name: conversation_ids
SELECT DISTINCT originator_id FROM conversation_events
 WHERE originator_id > %(after)s AND (%(account)s::text IS NULL OR account_id = %(account)s)
 ORDER BY 1 LIMIT %(limit)s

-- name: owners
SELECT id, account_id, event_field(state, 'user_id')
  FROM unnest(%s::text[]) AS id
  LEFT JOIN LATERAL (
       SELECT account_id, state FROM readable_conversation_events
        WHERE originator_id = id ORDER BY originator_version LIMIT 1) AS first ON true
