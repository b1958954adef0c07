"""This package's way to Postgres: bounded calls, its clock as text, the numbers of its locks."""

import contextlib
import os
import socket
from collections.abc import AsyncIterator

from psycopg import sql
from psycopg.pq.abc import PGconn

from conversations.errors import StoreUnavailable
from runtime import postgres
from runtime.postgres import CALL_SECONDS, Connection, Pool

EVENTS_TABLE = "conversation_events"

APPEND_LOCK = 0x6167636800000001
"""The advisory lock by which the processes that append take turns."""

LEADER_LOCK = 0x6167636800000002
"""The advisory lock of the one process that follows the log for all."""

REBUILD_LOCK = 0x61676369
"""With the hash of a name: the advisory lock of who builds a read model anew."""

NOW = sql.SQL("""to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')""")
"""SQL for the server's time as events carry it: ISO 8601 in UTC with microseconds."""


@contextlib.asynccontextmanager
async def using(pool: Pool, *, seconds: float = CALL_SECONDS) -> AsyncIterator[Connection]:
    """A connection for `seconds` at most. Raises StoreUnavailable where Postgres is away or frozen."""
    try:
        async with postgres.connection(pool, seconds=seconds) as conn:
            yield conn
    except postgres.DatabaseUnavailable as error:
        raise StoreUnavailable(str(error)) from error


async def server_now(pool: Pool) -> str:
    """The server's time, as events carry it. Raises StoreUnavailable."""
    async with using(pool) as conn:
        row = await (await conn.execute(_SERVER_NOW)).fetchone()
    assert row is not None, "SELECT without FROM gives one row"
    return str(row[0])


def shut_down(connection: PGconn) -> None:
    """End whatever waits on a connection, from any thread; libpq then reports it as lost.

    Nothing else ends a call to a frozen server: its kernel still acknowledges, and it cannot cancel.
    """
    with contextlib.suppress(OSError):
        duplicate = socket.socket(fileno=os.dup(connection.socket))
        with contextlib.closing(duplicate):
            duplicate.shutdown(socket.SHUT_RDWR)


_SERVER_NOW = sql.SQL("SELECT {}").format(NOW)
