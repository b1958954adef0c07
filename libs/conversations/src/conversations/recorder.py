"""The eventsourcing library's Postgres recorder, set up so that no server, frozen or gone, holds it up.

Used as it is but for this:
- connections are made as everywhere in this system (runtime.postgres), and one in use for too long has its
  socket shut down, because a call to a frozen server answers to no other time-out;
- an insert is tried once, where the library would try ten times, asleep between;
- events are sent in binary form: large ones take a fifth of the time;
- writers take turns by an advisory lock. The library's LOCK TABLE conflicts with VACUUM and ANALYZE, so that
  maintenance of the table would stop all appends, and it needs a right that services are better without.
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from psycopg import Connection, sql
from psycopg.abc import Query
from psycopg.rows import DictRow, dict_row

from conversations.database import APPEND_LOCK, EVENTS_TABLE, shut_down
from runtime.postgres import connect_options
from runtime.roles import SERVICE_ROLE

CALL_SECONDS = 2.5
_POOL_SECONDS = 1.5
_LOCK_SECONDS = 2
_TRANSACTION_SECONDS = 3
"""No transaction lasts longer, so that one whose writer is gone or stopped does not keep its turn for ever.

CALL_SECONDS <= _TRANSACTION_SECONDS: the writer itself has given up by then. The time-out for idle
transactions does not end it: psycopg asks for results by a Flush, which switches that one off (Postgres 18).
"""
_RECONNECT_SECONDS = 2.0


class Datastore(PostgresDatastore):
    """The library's datastore with one connection, made with our options and watched while in use."""

    def __init__(self, database_url: str, role: str | None = SERVICE_ROLE) -> None:
        super().__init__(
            dbname="",
            host="",
            port="",
            user="",
            password="",
            connect_timeout=_POOL_SECONDS,  # the library means: how long to wait for a pooled connection
            idle_in_transaction_session_timeout=_LOCK_SECONDS,
            lock_timeout=_LOCK_SECONDS,
            originator_id_type="text",
        )
        self.pool.conninfo = database_url
        options = connect_options(database_url, role=role)
        options["options"] += f" -c transaction_timeout={_TRANSACTION_SECONDS}s"
        self.pool.kwargs = options | {"row_factory": dict_row}
        self.pool.reconnect_timeout = _RECONNECT_SECONDS
        self._in_use: dict[int, tuple[Connection[DictRow], float]] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def get_connection(self) -> Iterator[Connection[DictRow]]:
        """As the library's, and watched by `cut_overdue` while in use."""
        with super().get_connection() as conn:
            with self._lock:
                self._in_use[id(conn)] = (conn, time.monotonic() + CALL_SECONDS)
            try:
                yield conn
            finally:
                with self._lock:
                    del self._in_use[id(conn)]

    def cut_overdue(self) -> None:
        """End what has waited on its connection for longer than CALL_SECONDS; from any thread, often."""
        now = time.monotonic()
        with self._lock:
            for conn, end in self._in_use.values():
                if now >= end:
                    shut_down(conn.pgconn)


class Recorder(PostgresApplicationRecorder):
    """The library's recorder on our table."""

    def __init__(self, datastore: Datastore) -> None:
        super().__init__(datastore, events_table_name=EVENTS_TABLE)
        self.lock_table_statements = self.lock_statements()
        self.insert_events_statement = _INSERT

    @staticmethod
    def lock_statements() -> list[Query]:
        """How a writer takes its turn, until its transaction ends.

        Before positions are drawn, so that they grow in the order of commits.
        """
        return [
            sql.SQL("SET LOCAL lock_timeout = {}").format(f"{_LOCK_SECONDS}s"),
            sql.SQL("SELECT pg_advisory_xact_lock({})").format(APPEND_LOCK),
        ]

    def insert_once(self, stored: Sequence[StoredEvent]) -> None:
        """Insert in one transaction, or raise one of the library's PersistenceErrors at the first failure."""
        _once(PostgresApplicationRecorder.insert_events)(self, stored)

    def select_once(self, conversation_id: str, gt: int, lte: int) -> list[StoredEvent]:
        """The stored events of a conversation with versions in (gt, lte], or the first failure."""
        return list(_once(PostgresApplicationRecorder.select_events)(self, conversation_id, gt=gt, lte=lte))


_INSERT = sql.SQL(
    "INSERT INTO {table} (originator_id, originator_version, topic, state)"
    " SELECT originator_id, originator_version, topic, state FROM unnest(%b::stored_event_text[])"
    " RETURNING notification_id"
).format(table=sql.Identifier(EVENTS_TABLE))


def _once(method: Any) -> Any:
    """The library's method without its retry decorator."""
    return method.__wrapped__
