"""Store events: the eventsourcing library's recorder on our table.

Nothing else writes to it. `build_call` returns one call of `append_events` for any number of conversations;
of each, all events are stored and its lease changed, or nothing is. The writer awaits it on its event loop.
`insert_events`, the library's contract, executes the same call, all or nothing.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from eventsourcing.persistence import (
    IntegrityError,
    InterfaceError,
    Notification,
    OperationalError,
    ProgrammingError,
    StoredEvent,
)
from eventsourcing.postgres import ConnectionPool, PostgresApplicationRecorder, PostgresDatastore
from psycopg import Connection, sql
from psycopg.rows import DictRow, dict_row

from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.append_statement import (
    AppendItem,
    Condition,
    build_parameters,
    build_statement,
)
from agentchat.conversations.postgres_sessions import APPEND_LOCK, EVENTS_TABLE
from agentchat.runtime.logs import get_first_line
from agentchat.runtime.postgres import CALL_SECONDS, DatabaseUnavailable, connect_options, cut, is_readable

# The library sets both to ERROR when it is imported, which would hide the pool's "error connecting".
for _name in ("psycopg", "psycopg.pool"):
    logging.getLogger(_name).setLevel(logging.NOTSET)

_CUT_SECONDS = 6.0
"""More than the server's statement_timeout."""


class ConversationDatastore(PostgresDatastore):
    """The library's datastore by a URL with all its options (TLS, for example), and with our deadlines."""

    def __init__(self, database_url: str, *, max_size: int = 4) -> None:
        super().__init__("", "", "", "", "", originator_id_type="text")
        self.pool = ConnectionPool(
            database_url,
            connection_class=Connection[DictRow],
            kwargs=connect_options(database_url, role=None) | {"row_factory": dict_row},
            min_size=1,
            max_size=max_size,
            open=False,
            check=_check,
            timeout=CALL_SECONDS,
        )

    @contextlib.contextmanager
    def get_connection(self) -> Iterator[Connection[DictRow]]:
        """Yield a connection that is cut after somewhat longer than the server takes over a statement.

        Raises:
            DatabaseUnavailable: Instead of the library's OperationalError, on which it would retry ten
                times.
            psycopg.ProgrammingError: A table is missing, for example.
        """
        try:
            with super().get_connection() as conn:
                late = threading.Timer(_CUT_SECONDS, cut, [conn])
                late.start()
                try:
                    yield conn
                finally:
                    late.cancel()
        except (OperationalError, InterfaceError) as error:
            raise DatabaseUnavailable(get_first_line(error)) from error
        except ProgrammingError as error:
            raise (error.__cause__ or error) from None

    def register_type_adapters(self) -> None:
        """Register nothing: parameters are arrays, and a service starts while Postgres is away."""


class ConversationRecorder(PostgresApplicationRecorder):
    """Append events, and read those that are not erased.

    Args:
        condition: Must hold for a run to begin, next to the rules of `append_events`.
    """

    def __init__(self, datastore: PostgresDatastore, condition: Condition | None = None) -> None:
        super().__init__(datastore, events_table_name=EVENTS_TABLE)
        self._condition = condition
        self._statements = {with_: build_statement(condition if with_ else None) for with_ in (True, False)}
        self.lock_table_statements = [sql.SQL("SELECT pg_advisory_xact_lock({})").format(APPEND_LOCK)]
        self.select_events_statement = sql.SQL(
            "SELECT originator_id, originator_version, topic, state FROM {} WHERE originator_id = %s"
        ).format(sql.Identifier("readable_conversation_events"))
        # The queries of notifications take the table's name when they are built.
        self.events_table_name = "readable_conversation_events"

    def build_call(self, items: Sequence[AppendItem], *, waits: bool = True) -> tuple[bytes, list[Any]]:
        """Return the statement that appends, and its parameters.

        Its rows are the items that were stored: the conversation, and when the lease was taken. Unless it
        `waits`, the items whose conversations' locks other appends hold are rows too, as blocked.
        """
        begins = self._condition if any(item.beginning for item in items) else None
        return self._statements[begins is not None], build_parameters(items, begins, waits=waits)

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int]:
        """Store all or none of the events and return their positions. Callers take turns.

        Raises:
            IntegrityError: The library's: something is stored there already.
        """
        items = _group_items(stored_events)
        with self.datastore.get_connection() as conn, conn.transaction(), conn.cursor() as cursor:
            for lock in self.lock_table_statements:
                cursor.execute(lock)
            if cursor.execute(*self.build_call(items)).rowcount < len(items):
                raise IntegrityError("there are events at these versions already")
            cursor.execute(sql.SQL("NOTIFY {}").format(sql.Identifier(self.channel_name)))
            ids = [each.originator_id for each in stored_events]
            versions = [each.originator_version for each in stored_events]
            cursor.execute(_POSITIONS, [ids, versions])
            return [row["notification_id"] for row in cursor]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Select as the library does, up to the settled position (schema.sql)."""
        with self.datastore.get_connection() as conn:
            row = conn.execute("SELECT settled_position() AS settled").fetchone()
        assert row is not None, "a function gives one row"
        stop = row["settled"] if stop is None else min(stop, row["settled"])
        found: Sequence[Notification] = super().select_notifications(
            start, limit, stop, topics, inclusive_of_start=inclusive_of_start
        )
        return found


def _group_items(stored_events: Sequence[StoredEvent]) -> list[AppendItem]:
    by_conversation: dict[str, list[StoredEvent]] = {}
    for each in stored_events:
        by_conversation.setdefault(str(each.originator_id), []).append(each)
    items = []
    for conversation_id, events in by_conversation.items():
        rows = [mapper.build_row(each.topic, each.state) for each in events]
        expected = events[0].originator_version - 1
        items.append(AppendItem(conversation_id, expected, rows, mapper.find_account(rows)))
    return items


def _check(conn: Connection[Any]) -> None:
    """Close a connection of the pool that the server has closed, for example at a restart.

    Raises psycopg.Error.
    """
    if is_readable(conn):
        conn.close()  # otherwise the pool would hand it out again
        raise psycopg.OperationalError("the server has closed the connection")


_POSITIONS = sql.SQL(
    "SELECT notification_id FROM unnest(%s::text[], %s::bigint[])"
    "  WITH ORDINALITY AS asked (id, version, place)"
    "  JOIN {} ON originator_id = id AND originator_version = version ORDER BY place"
).format(sql.Identifier(EVENTS_TABLE))
