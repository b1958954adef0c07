"""Fill the read models by SQL with as many conversations and runs as a measurement needs.

`python -m tests.conversations.fill_read_models DATABASE_URL` fills 100,000 conversations with 300,000 runs.
"""

import sys

import psycopg

RUNS_A_CONVERSATION = 3


def fill_read_models(database_url: str, conversations: int = 100_000, open_runs: int = 500) -> None:
    """Adds conversations of 20 accounts over 30 days: every tenth run failed, every tenth is rated."""
    with psycopg.connect(database_url, autocommit=True) as owner:
        given = {"conversations": conversations, "each": RUNS_A_CONVERSATION, "open": open_runs}
        for statement in (_CONVERSATIONS, _RUNS, _FEEDBACK, _RATINGS, _SCORES, _SUMS, *_ANALYZE):
            owner.execute(statement.encode(), given if b"%(" in statement.encode() else None)


_AT = "to_char(now() - interval '1 second' * ({}), 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"

_CONVERSATIONS = f"""
INSERT INTO conversations (conversation_id, account_id, title, agent_id, message_count, created_at,
                           updated_at, user_id, listed, events, bytes)
SELECT '019ac9e4-0000-7000-8000-' || lpad(to_hex(n), 12, '0'), 'account-' || n %% 20, 'Where is order ' || n,
       'agent-' || n %% 50, 6, {_AT.format("26 * (%(conversations)s - n) + 900")},
       {_AT.format("26 * (%(conversations)s - n)")}, 'user-' || n %% 5000, true, 30, 20000
  FROM generate_series(1, %(conversations)s) AS n"""

_RUNS = f"""
INSERT INTO runs (trace_id, conversation_id, account_id, user_id, agent_id, agent_version, model, form, state,
                  code, attempts, rounds, tool_calls, input_tokens, output_tokens, cache_read_tokens,
                  cache_creation_tokens, cost, first_token_ms, duration_ms, requested_at, started_at,
                  ended_at)
SELECT md5(n::text), '019ac9e4-0000-7000-8000-' || lpad(to_hex((n - 1) / %(each)s + 1), 12, '0'),
       'account-' || c %% 20, 'user-' || c %% 5000, 'agent-' || c %% 50, 1 + c %% 7, 'model-' || c %% 5,
       'form1', CASE WHEN is_open THEN 'running' WHEN n %% 10 = 0 THEN 'failed'
                     WHEN n %% 50 = 1 THEN 'cancelled' ELSE 'completed' END,
       CASE WHEN NOT is_open AND n %% 10 = 0
            THEN (ARRAY['provider_error', 'timeout', 'overloaded'])[1 + n %% 3] END,
       1, 2, n %% 4, hashint4(n) & 8191, hashint4(n + 1) & 1023, hashint4(n + 2) & 4095, 0,
       (hashint4(n + 3) & 65535) / 1000000.0, hashint4(n + 4) & 2047,
       CASE WHEN NOT is_open THEN 19900 - (hashint4(n) & 1023) * 50 / 3 END,
       {_AT.format("20 + since")}, {_AT.format("19.9 + since")},
       CASE WHEN NOT is_open THEN {_AT.format("since + (hashint4(n) & 1023) / 60.0")} END
  FROM generate_series(1, %(conversations)s * %(each)s) AS n,
       LATERAL (SELECT (n - 1) / %(each)s + 1 AS c, n > %(conversations)s * %(each)s - %(open)s AS is_open,
                       26.0 * (%(conversations)s * %(each)s - n) / %(each)s AS since) AS of"""

_FEEDBACK = """
INSERT INTO feedback (message_id, on_behalf_of, trace_id, conversation_id, account_id, score, given_at)
SELECT trace_id, '', trace_id, conversation_id, account_id, sign(hashtext(trace_id)), ended_at
  FROM runs WHERE hashtext(trace_id) % 10 = 0 AND ended_at IS NOT NULL"""

_RATINGS = """
UPDATE runs SET scores = jsonb_build_object('', score), rating = score
  FROM feedback WHERE feedback.trace_id = runs.trace_id"""

_SCORES = """
UPDATE conversations
   SET scores = given.scores, rating = given.rating, has_bad = given.has_bad, has_good = given.has_good
  FROM (SELECT conversation_id, jsonb_object_agg(trace_id || ' ', score) AS scores, avg(score) AS rating,
               bool_or(score < 0) AS has_bad, bool_or(score > 0) AS has_good
          FROM feedback GROUP BY conversation_id) AS given
 WHERE given.conversation_id = conversations.conversation_id"""

_SUMS = """
UPDATE conversations SET tokens = own.tokens, cost = own.cost
  FROM (SELECT conversation_id, sum(cost) AS cost,
               sum(input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens) AS tokens
          FROM runs GROUP BY conversation_id) AS own
 WHERE own.conversation_id = conversations.conversation_id"""

_ANALYZE = ("VACUUM ANALYZE conversations", "VACUUM ANALYZE runs", "VACUUM ANALYZE feedback")

if __name__ == "__main__":
    fill_read_models(sys.argv[1])
