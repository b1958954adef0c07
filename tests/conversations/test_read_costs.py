"""Reading costs as much as it returns, however many erasures are unfinished. Counted in pages of Postgres."""

import psycopg

from agentchat.conversations.event_store import event_log
from agentchat.conversations.postgres_sessions import load_statements

_READ = load_statements(event_log.__file__)["read"]
_ROWS, _PAGES_PER_ROW = 500, 8
_FILL = """
INSERT INTO conversation_events
       (notification_id, originator_id, originator_version, topic, state, trace_id, at, account_id)
SELECT coalesce((SELECT max(notification_id) FROM conversation_events), 0) + row_number() OVER (),
       conversation, version,
       CASE WHEN version = 20 AND %(erased)s THEN 'conversation_erased.v1' ELSE 'delta.v1' END,
       '{}', 'trace', now(), 'account'
  FROM (SELECT gen_random_uuid()::text AS conversation FROM generate_series(1, %(count)s)) AS made,
       generate_series(1, 20) AS version
"""


def test_reading_does_not_depend_on_unfinished_erasures(migrated_database_url: str) -> None:
    with psycopg.connect(migrated_database_url, autocommit=True) as owner:
        for count, is_erased in ((50, False), (2_000, True)):
            owner.execute(_FILL, {"count": count, "erased": is_erased})
            head = owner.execute("SELECT max(notification_id) FROM conversation_events").fetchone()
            assert head is not None
            for after in (0, head[0] - _ROWS):
                explained = owner.execute(
                    b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + _READ, ([], after, 10**12, _ROWS, 2**23)
                ).fetchone()
                assert explained is not None
                plan = explained[0][0]["Plan"]
                assert plan["Actual Rows"] == _ROWS
                assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < _ROWS * _PAGES_PER_ROW
