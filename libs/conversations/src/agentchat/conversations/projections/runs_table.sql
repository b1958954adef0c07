-- name: usage_of_month
-- "2026-11" is before, and "2026-11~" after, every time of that month.
SELECT account_id, substr(ended_at, 1, 10) AS day, coalesce(agent_id, '') AS agent_id,
       coalesce(model, '') AS model, count(*) AS runs,
       count(*) FILTER (WHERE state = 'failed') AS failed,
       count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
       sum(rounds)::bigint AS rounds,
       sum(input_tokens)::bigint AS input_tokens,
       sum(output_tokens)::bigint AS output_tokens,
       sum(cache_read_tokens)::bigint AS cache_read_tokens,
       sum(cache_creation_tokens)::bigint AS cache_creation_tokens
  FROM runs
 WHERE ended_at >= %(month)s AND ended_at < %(month)s::text || '~'
   AND (%(account_id)s::text IS NULL OR account_id = %(account_id)s)
 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4

-- name: open_of_agent
SELECT count(*) OVER (), trace_id FROM runs
 WHERE account_id = %s AND agent_id = %s AND ended_at IS NULL ORDER BY requested_at, trace_id LIMIT %s
