-- name: join
-- Two that join at the same moment may both find the last place free: the bounds need not be exact.
INSERT INTO waiting_line (trace_id, conversation_id, account_id, model, place, worker, expires_at)
OVERRIDING SYSTEM VALUE
SELECT %(trace)s, %(conversation)s, %(account)s, %(model)s,
       extract(epoch FROM %(asked_at)s::timestamptz) * 1000000,
       %(worker)s, clock_timestamp() + make_interval(secs => %(seconds)s)
 WHERE EXISTS (SELECT FROM waiting_line WHERE trace_id = %(trace)s)
    OR ((SELECT count(*) FROM waiting_line
          WHERE conversation_id = %(conversation)s AND expires_at > clock_timestamp()) < %(in_conversation)s
    AND (SELECT count(*) FROM waiting_line
          WHERE account_id = %(account)s AND expires_at > clock_timestamp()) < %(in_account)s)
ON CONFLICT (trace_id) DO UPDATE SET worker = excluded.worker, expires_at = excluded.expires_at

-- name: go_before
INSERT INTO waiting_line (trace_id, conversation_id, place, worker, expires_at) OVERRIDING SYSTEM VALUE
VALUES (%s, %s, 0, %s, clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (trace_id) DO UPDATE SET worker = excluded.worker, expires_at = excluded.expires_at

-- name: first
SELECT asked.trace_id FROM unnest(%s::text[], %s::text[]) AS asked (trace_id, conversation_id)
  LEFT JOIN waiting_line mine ON mine.trace_id = asked.trace_id
 WHERE NOT EXISTS (
       SELECT FROM waiting_line other
        WHERE other.conversation_id = asked.conversation_id AND other.trace_id <> asked.trace_id
          AND other.expires_at > clock_timestamp()
          AND (mine.trace_id IS NULL OR (other.place, other.trace_id) < (mine.place, mine.trace_id)))

-- name: renew
UPDATE waiting_line SET expires_at = clock_timestamp() + make_interval(secs => %s)
 WHERE worker = %s AND trace_id = ANY(%s)
