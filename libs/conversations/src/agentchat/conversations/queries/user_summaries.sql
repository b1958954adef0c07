-- name: users
WITH talked AS (
     SELECT user_id, count(*) AS conversations, max(updated_at) AS last_at FROM conversations
      WHERE account_id = %(account)s AND user_id IS NOT NULL
        AND (%(user)s::text IS NULL OR user_id = %(user)s)
        AND NOT EXISTS (SELECT FROM conversation_events
                         WHERE originator_id = conversation_id AND topic = 'conversation_erased.v1')
      GROUP BY user_id
), spent AS (
     SELECT user_id, max(coalesce(ended_at, requested_at)) AS last_at,
            sum(input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens)
              FILTER (WHERE ended_at IS NOT NULL)::bigint AS tokens,
            coalesce(sum(cost) FILTER (WHERE ended_at IS NOT NULL), 0)::float8 AS cost,
            count(*) FILTER (WHERE cost IS NULL AND ended_at IS NOT NULL) AS unpriced
       FROM runs
      WHERE account_id = %(account)s AND user_id IS NOT NULL
        AND (%(user)s::text IS NULL OR user_id = %(user)s)
      GROUP BY user_id
), users AS (
     SELECT user_id, coalesce(conversations, 0) AS conversations,
            greatest(talked.last_at COLLATE "C", spent.last_at) AS last_active_at, coalesce(tokens, 0) AS tokens,
            coalesce(cost, 0) AS cost, coalesce(unpriced, 0) AS unpriced
       FROM talked FULL JOIN spent USING (user_id)
), placed AS (
     SELECT CASE %(order)s::text WHEN 'tokens' THEN tokens WHEN 'conversations' THEN conversations
            ELSE (extract(epoch FROM last_active_at::timestamptz) * 1000000)::bigint END AS place, users.*
       FROM users
)
SELECT * FROM placed
 WHERE %(place)s::bigint IS NULL OR place < %(place)s OR place = %(place)s AND user_id > %(last)s::text
 ORDER BY place DESC, user_id LIMIT %(limit)s

-- name: months
SELECT substr(ended_at, 1, 7) AS month, count(*) AS runs,
       sum(input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens)::bigint AS tokens,
       sum(input_tokens)::bigint AS input_tokens, sum(cache_read_tokens)::bigint AS cache_read_tokens,
       sum(cache_creation_tokens)::bigint AS cache_creation_tokens, sum(output_tokens)::bigint AS output_tokens,
       coalesce(sum(cost), 0)::float8 AS cost, count(*) FILTER (WHERE cost IS NULL) AS unpriced
  FROM runs WHERE account_id = %(account)s AND user_id = %(user)s AND ended_at IS NOT NULL
 GROUP BY 1 ORDER BY 1 DESC

-- name: users_of_month
SELECT user_id, %(month)s AS month, count(*) AS runs,
       sum(input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens)::bigint AS tokens,
       sum(input_tokens)::bigint AS input_tokens, sum(cache_read_tokens)::bigint AS cache_read_tokens,
       sum(cache_creation_tokens)::bigint AS cache_creation_tokens, sum(output_tokens)::bigint AS output_tokens,
       coalesce(sum(cost), 0)::float8 AS cost, count(*) FILTER (WHERE cost IS NULL) AS unpriced
  FROM runs WHERE account_id = %(account)s AND ended_at >= %(month)s AND ended_at < %(month)s || '-32'
 GROUP BY user_id ORDER BY tokens DESC, user_id LIMIT %(limit)s

-- name: conversations
SELECT conversation_id FROM conversations
 WHERE account_id = %(account)s AND user_id = %(user)s AND conversation_id > %(after)s
   AND EXISTS (SELECT FROM conversation_events WHERE originator_id = conversation_id)
   AND NOT EXISTS (SELECT FROM conversation_events
                    WHERE originator_id = conversation_id AND topic = 'conversation_erased.v1')
 ORDER BY conversation_id LIMIT %(limit)s
