-- name: find
SELECT account_id, originator_version, (
       SELECT event_field(state, 'user_id') FROM conversation_events AS first
        WHERE first.originator_id = last.originator_id AND first.originator_version = 1)
  FROM (SELECT originator_id, account_id, originator_version, topic FROM conversation_events WHERE originator_id = %s
         ORDER BY originator_version DESC LIMIT 1) AS last
 WHERE topic <> 'conversation_erased.v1'

-- name: first_behind
SELECT min(originator_version) FROM readable_conversation_events WHERE originator_id = %s AND at > %s

-- name: messages
-- The size of a message includes what its run retrieved and what its tools returned. The size of a value that
-- is stored out of line is known without fetching it.
SELECT originator_version, topic, state, found FROM (
  SELECT *, count(*) OVER () AS found, sum(size) OVER (ORDER BY originator_version) - size AS before FROM (
    SELECT *, octet_length(state) + (
             SELECT coalesce(sum(octet_length(own.state)), 0) FROM readable_conversation_events AS own
              WHERE own.originator_id = page.originator_id AND own.originator_version > page.previous
                AND own.originator_version < page.originator_version
                AND own.topic LIKE ANY (ARRAY['sources_retrieved.v%%', 'tool_called.v%%', 'tool_returned.v%%'])
           ) AS size
      FROM (SELECT *, lag(originator_version, 1, %(after)s) OVER (ORDER BY originator_version) AS previous
              FROM (SELECT originator_id, originator_version, topic, state FROM readable_conversation_events
                     WHERE originator_id = %(id)s AND topic LIKE 'message_saved.v%%'
                       AND originator_version > %(after)s AND originator_version <= %(until)s
                     ORDER BY originator_version LIMIT %(limit)s) AS messages) AS page
  ) AS sized
) AS measured WHERE before < %(most)s ORDER BY originator_version

-- name: runs
SELECT topic, state FROM readable_conversation_events
 WHERE originator_id = %(id)s AND originator_version >= %(after)s AND originator_version <= %(until)s
   AND topic LIKE ANY (ARRAY['message_saved.v%%', 'sources_retrieved.v%%', 'tool_called.v%%', 'tool_returned.v%%',
                             'approval_requested.v%%', 'elicitation_requested.v%%', 'approval_decided.v%%'])
 ORDER BY originator_version

-- name: summary
WITH told AS MATERIALIZED (
  SELECT originator_version AS version, topic LIKE 'message_saved.v%%' AS said FROM readable_conversation_events
   WHERE originator_id = %(id)s AND (topic LIKE 'message_saved.v%%' OR topic LIKE 'conversation_described.v%%')
     AND originator_version <= %(until)s
)
SELECT topic, state, (SELECT count(*) FILTER (WHERE said) FROM told)
  FROM readable_conversation_events
 WHERE originator_id = %(id)s AND (
  topic = 'conversation_forked.v1' AND originator_version = 2 OR originator_version IN (
  (SELECT min(originator_version) FROM conversation_events WHERE originator_id = %(id)s),
  (SELECT min(version) FILTER (WHERE said) FROM told), (SELECT max(version) FILTER (WHERE said) FROM told),
  (SELECT max(version) FILTER (WHERE NOT said) FROM told)))
 ORDER BY originator_version
