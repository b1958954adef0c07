"""The eventsourcing library's own recorder on our table: what our writer is held to."""

import contextlib
from collections.abc import Iterator

from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from psycopg.rows import dict_row

from conversations.database import EVENTS_TABLE


@contextlib.contextmanager
def library_datastore(database_url: str, schema: str = "") -> Iterator[PostgresDatastore]:
    """As the URL's user: the recorder locks the whole table, which only its owner may."""
    datastore = PostgresDatastore("", "", "", "", "", schema=schema, originator_id_type="text")
    datastore.pool.conninfo = database_url
    datastore.pool.kwargs = {"row_factory": dict_row}
    try:
        yield datastore
    finally:
        datastore.close()


@contextlib.contextmanager
def library_recorder(database_url: str) -> Iterator[PostgresApplicationRecorder]:
    """Unchanged."""
    with library_datastore(database_url) as datastore:
        yield PostgresApplicationRecorder(datastore, events_table_name=EVENTS_TABLE)
