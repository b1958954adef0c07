"""Use Postgres outside the pool: sessions, time limits, the server's time, locks."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
from psycopg import AsyncConnection, sql

from agentchat.runtime.postgres import (
    CALL_SECONDS,
    Connection,
    Pool,
    acquire_connection,
    connect_options,
    cut,
)
from agentchat.runtime.retry_loops import wait_for_event

EVENTS_TABLE = "conversation_events"

APPEND_LOCK = 0x6167636800000001
"""The advisory lock by which appends through the eventsourcing library take turns (`application`)."""

CONVERSATION_LOCKS = 0x61676364
"""The advisory lock by which appends to a conversation take turns, with 12 bits of its id's hash."""

APPENDS_UNDER_WAY = 0x40000000
"""The upper half of the advisory locks by which appends register.

The lower half is a position.
"""

LEADER_LOCK = 0x6167636800000002
"""The advisory lock of the leading projector; the others wait for it (`projector.leader_election`)."""

DatabaseError = psycopg.Error
"""The errors of Postgres, for callers that use a session and do not import psycopg."""


NOW = sql.SQL("""to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')""")
"""SQL for the server's time as events carry it: ISO 8601 in UTC with microseconds."""


def load_statements(module_file: str) -> dict[str, bytes]:
    """Return the statements of a module's .sql file by their `-- name:` lines."""
    text = Path(module_file).with_suffix(".sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: body.strip().encode() for name, body in zip(parts[::2], parts[1::2], strict=True)}


async def lift_time_limits(conn: Connection) -> None:
    """Let the transaction take as long as its caller waits. Raises psycopg.Error."""
    await conn.execute("SET LOCAL statement_timeout TO 0")
    await conn.execute("SET LOCAL idle_in_transaction_session_timeout TO 0")


@contextlib.asynccontextmanager
async def open_session(
    database_url: str, name: str, *, silence_seconds: int | None = None
) -> AsyncIterator[Connection]:
    """Open a connection of its own, for locks and notifications, which a pool cannot give.

    The server closes it after `silence_seconds` without a statement. Raises psycopg.Error.
    """
    options = connect_options(database_url)
    if silence_seconds is not None:
        options["options"] += f" -c idle_session_timeout={silence_seconds * 1000}"
    opened = await AsyncConnection.connect(database_url, **options, application_name=name)
    try:
        yield opened
    finally:
        await opened.close()


@contextlib.contextmanager
def cut_after(session: Connection, *, seconds: float = CALL_SECONDS) -> Iterator[None]:
    """Cut a session if the block takes longer than `seconds`.

    The call then raises psycopg.Error.
    """
    late = asyncio.get_running_loop().call_later(seconds, cut, session)
    try:
        yield
    finally:
        late.cancel()


async def listen(session: Connection, channel: str) -> None:
    """Subscribe the session to a channel. Raises psycopg.Error."""
    with cut_after(session):
        await session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))


async def wait_for_notifications(session: Connection, *, seconds: float) -> list[str]:
    """Return the session's next notifications, [] if none comes in `seconds`.

    Raises psycopg.Error. psycopg's own wait would wake this process ten times a second.
    """
    if came := await _take(session):  # received with the answer to a statement
        return came
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    socket_of = session.pgconn.socket
    loop.add_reader(socket_of, readable.set)
    try:
        came_in_time = await wait_for_event(readable, seconds)
    finally:
        loop.remove_reader(socket_of)
    return await _take(session) if came_in_time else []


async def _take(session: Connection) -> list[str]:
    return [each.payload async for each in session.notifies(timeout=0)]


async def read_server_time(pool: Pool) -> str:
    """Return the server's time as events carry it. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_SERVER_NOW)).fetchone()
    assert row is not None, "SELECT without FROM gives one row"
    return str(row[0])


_SERVER_NOW = sql.SQL("SELECT {}").format(NOW)
