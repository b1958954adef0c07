-- name: usage_of_month
-- "2026-11" is before, and "2026-11~" after, every day of that month.
SELECT account_id, CASE WHEN %(with_lines)s THEN day ELSE '' END AS day,
       CASE WHEN %(with_lines)s THEN agent_id ELSE '' END AS agent_id,
       CASE WHEN %(with_lines)s THEN model ELSE '' END AS model, sum(runs)::bigint AS runs, sum(failed)::bigint AS failed,
       sum(cancelled)::bigint AS cancelled, sum(rounds)::bigint AS rounds,
       sum(input_tokens)::bigint AS input_tokens,
       sum(output_tokens)::bigint AS output_tokens,
       sum(cache_read_tokens)::bigint AS cache_read_tokens,
       sum(cache_creation_tokens)::bigint AS cache_creation_tokens,
       sum(input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens)::bigint AS tokens,
       sum(cost)::float8 AS cost, sum(unpriced)::bigint AS unpriced
  FROM usage_by_day
 WHERE day >= %(month)s AND day < %(month)s::text || '~'
   AND (%(account_id)s::text IS NULL OR account_id = %(account_id)s)
 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
