-- name: due
SELECT conversation_id, trace_ids, passes FROM erasures
 WHERE due_at <= clock_timestamp() AND position <= %(fed)s
   AND position <= (SELECT position FROM projection_positions WHERE name = 'runs')
 ORDER BY due_at LIMIT %(limit)s

-- name: newest
SELECT notification_id, trace_id,
       ARRAY(SELECT jsonb_path_query(convert_from(state, 'UTF8')::jsonb, 'strict $.**.file_id') #>> '{}'
              WHERE topic IN ('conversation_seeded.v1', 'message_received.v1', 'message_saved.v1', 'tool_returned.v1'))
  FROM conversation_events
 WHERE originator_id = %s AND topic <> 'conversation_erased.v1'
 ORDER BY originator_version DESC LIMIT %s

-- name: leases
DELETE FROM run_leases WHERE trace_id = ANY(%(traces)s)

-- name: requests
DELETE FROM run_requests WHERE trace_id = ANY(%(traces)s)

-- name: waiters
DELETE FROM waiting_line WHERE trace_id = ANY(%(traces)s)

-- name: parked
DELETE FROM parked_events WHERE conversation_id = %(id)s

-- name: what_if
DELETE FROM what_if_runs WHERE conversation_id = %(id)s

-- name: rows
SELECT remove_content(%(positions)s)

-- name: progress
-- Those that are due come before it. A run that a paused worker may go on with is in the first chunk.
UPDATE erasures
   SET passes = passes + %(ended)s, due_at = clock_timestamp() + make_interval(secs => %(seconds)s),
       trace_ids = CASE WHEN trace_ids = '{}' THEN %(traces)s ELSE trace_ids END
 WHERE conversation_id = %(id)s AND passes = %(passes)s

-- name: end
DELETE FROM erasures WHERE conversation_id = %(id)s AND passes = %(passes)s

-- name: unfinished
SELECT conversation_id, rows_left
  FROM erasures, LATERAL (
       SELECT count(*) AS rows_left FROM conversation_events
        WHERE originator_id = conversation_id AND topic <> 'conversation_erased.v1') AS left_over
 WHERE passes = 0 AND rows_left > 0 ORDER BY rows_left DESC, conversation_id LIMIT %s

-- name: old_tombstones
SELECT remove_content(ARRAY(
       SELECT notification_id FROM conversation_events WHERE originator_id = old.originator_id))
  FROM (SELECT originator_id FROM conversation_events
         WHERE topic = 'conversation_erased.v1' AND at < clock_timestamp() - interval '35 days'
           AND notification_id < (SELECT max(notification_id) FROM conversation_events)
           AND originator_id NOT IN (SELECT conversation_id FROM erasures)
           AND originator_id NOT IN (SELECT conversation_id FROM parked_events)
         LIMIT %s) AS old

-- name: unerased
-- What the log does not have is left out: it is for `replay rebuild`.
SELECT conversation_id FROM conversations
 WHERE account_id = %s
   AND EXISTS (SELECT FROM conversation_events WHERE originator_id = conversation_id)
   AND NOT EXISTS (SELECT FROM conversation_events
                    WHERE originator_id = conversation_id AND topic = 'conversation_erased.v1')
 LIMIT %s
