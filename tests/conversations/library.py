"""The eventsourcing library's own datastore, with whose table ours is compared."""

import contextlib
from collections.abc import Iterator

from eventsourcing.postgres import PostgresDatastore
from psycopg.rows import dict_row


@contextlib.contextmanager
def open_library_datastore(database_url: str, schema: str = "") -> Iterator[PostgresDatastore]:
    """As the URL's user: the recorder locks the whole table, which only its owner may."""
    datastore = PostgresDatastore("", "", "", "", "", schema=schema, originator_id_type="text")
    datastore.pool.conninfo = database_url
    datastore.pool.kwargs = {"row_factory": dict_row}
    try:
        yield datastore
    finally:
        datastore.close()
