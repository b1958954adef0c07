-- name: leader
SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
 WHERE locktype = 'advisory' AND granted AND objsubid = 1
   AND classid::bigint = %s AND objid::bigint = %s
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())

-- name: under_way
SELECT (SELECT count(*) FROM runs WHERE ended_at IS NULL),
       coalesce((SELECT extract(epoch FROM clock_timestamp() - min(requested_at)::timestamptz)
                   FROM runs WHERE ended_at IS NULL), 0)::float8,
       (SELECT count(*) FROM approvals
         WHERE status = 'pending' AND approvers <> 'client' AND expires_at::timestamptz > clock_timestamp()),
       (SELECT count(*) FROM waiting_line WHERE place > 0 AND expires_at > clock_timestamp())

-- name: failed_runs
SELECT coalesce(code, 'unknown'), count(*), max(ended_at)
  FROM runs
 WHERE state = 'failed'
   AND ended_at >= (SELECT to_char((clock_timestamp() - make_interval(secs => %s)) AT TIME ZONE 'UTC',
                                   'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
 GROUP BY code ORDER BY count(*) DESC, code

-- name: read_models
SELECT name, position, (SELECT count(*) FROM parked_events WHERE projection = name)
  FROM projection_positions WHERE name = ANY(%s) ORDER BY name

-- name: open_runs
-- What depends on each run is looked up for those of the page alone.
WITH newest AS (
     SELECT *, count(*) OVER () AS total
       FROM runs
      WHERE ended_at IS NULL AND (%(account)s::text IS NULL OR account_id = %(account)s)
        AND (%(limited)s::text[] IS NULL OR account_id = ANY (%(limited)s))
        AND (%(agent)s::text IS NULL OR agent_id = %(agent)s)
      ORDER BY requested_at DESC, trace_id LIMIT %(limit)s)
SELECT trace_id, conversation_id, account_id, agent_id,
       extract(epoch FROM clock_timestamp() - requested_at::timestamptz)::float8, model, attempts, rounds,
       (SELECT name FROM tools
         WHERE tools.trace_id = newest.trace_id AND is_error IS NULL ORDER BY called_at DESC LIMIT 1),
       (SELECT name FROM approvals
         WHERE approvals.trace_id = newest.trace_id AND status = 'pending' LIMIT 1),
       total
  FROM newest ORDER BY requested_at DESC, trace_id
