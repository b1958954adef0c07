"""Connections to Postgres that a frozen, restarted or unreachable server cannot hold up.

Neither `statement_timeout` nor TCP's own timeouts end a call to a server that is stopped (its kernel still
acknowledges, and it cannot cancel), and cancelling the task waits for the server too. So each use of a
connection has a deadline, at which its socket is shut down: the call fails at once and the pool replaces it.
"""

import asyncio
import contextlib
import os
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from agentchat.runtime.logs import first_line
from agentchat.runtime.roles import SERVICE_ROLE, Service, names_role, role_of
from agentchat.runtime.settings import SettingsError

Connection: TypeAlias = AsyncConnection[TupleRow]
Cursor: TypeAlias = AsyncCursor[TupleRow]
Pool: TypeAlias = AsyncConnectionPool[Connection]
OnConnect: TypeAlias = Callable[[Connection], Awaitable[None]]

APPLICATION_NAME = "agentchat"
"""The application name of sessions that have no other."""

CONNECT_SECONDS = 3
CALL_SECONDS = 3.0
_RECONNECT_SECONDS = 2.0
_WRITES = "read-write"
_TARGETS = (_WRITES, "primary", "any")


class DatabaseUnavailable(Exception):  # noqa: N818 - the condition is its name
    """Postgres did not answer in time, or the connection to it broke; whether a write happened is unknown.

    To append the same events again is safe: the store knows its own.
    """


class _PooledConnection(AsyncConnection[TupleRow]):
    """Given up at once where its caller is cancelled during a statement."""

    async def cancel_safe(self, *, timeout: float = 0.0) -> None:  # noqa: ARG002 - psycopg's signature
        """psycopg would ask the server over a second connection, and wait for it though it is frozen."""
        cut(self)


@contextlib.asynccontextmanager
async def open_pool(
    database_url: str,
    *,
    min_size: int = 1,
    max_size: int = 4,
    role: str | None = SERVICE_ROLE,
    durable: bool = True,
    options: str = "",
    on_connect: OnConnect | None = None,
) -> AsyncIterator[Pool]:
    """A pool of autocommit connections acting as `role`, or as the URL says (`acting_as`).

    `options` are for the server, after ours: `-c name=value`. Without `durable` a commit does not wait for
    the disk, nor for a standby: a crash or a promotion may lose the last ones, each with all that came after
    it. That is for what is then done again. `on_connect` is called with each new connection.

    Opens whether or not Postgres can be reached yet. Use it through `connection`, which bounds each call.
    """
    if not durable:
        options += " -c synchronous_commit=off"
    pool: Pool = AsyncConnectionPool(
        database_url,
        connection_class=_PooledConnection,
        kwargs=connect_options(database_url, role=role, more=options),
        min_size=min_size,
        max_size=max_size,
        open=False,
        configure=on_connect,
        timeout=CALL_SECONDS,
        # The pool's back-off doubles up to this time: short, to find Postgres soon after an outage.
        reconnect_timeout=_RECONNECT_SECONDS,
    )
    await pool.open(wait=False)
    try:
        yield pool
    finally:
        await pool.close(timeout=CALL_SECONDS)


def acting_as(database_url: str, service: Service) -> str:
    """The same database for a service: a login that may do more takes the service's role and no other.

    A login that is the service's own role, or a member of it, has nothing to go back to. Raises SettingsError
    where it is no address of Postgres, or one of standbys.
    """
    try:
        parts = conninfo_to_dict(database_url)
    except psycopg.ProgrammingError:  # its text may have the password
        raise SettingsError("AGENTCHAT_DATABASE_URL cannot be used: it is no address of Postgres") from None
    if (target := parts.get("target_session_attrs") or _WRITES) not in _TARGETS:
        raise SettingsError(
            f"AGENTCHAT_DATABASE_URL cannot be used: target_session_attrs={target} names no primary"
        )
    options = parts.get("options") or ""
    return make_conninfo(database_url, options=f"{options} -c role={role_of(service)}".strip())


def connect_options(database_url: str, *, role: str | None = SERVICE_ROLE, more: str = "") -> dict[str, Any]:
    """Keyword arguments for psycopg's `connect`, next to the URL; the URL's own `options` are kept.

    A role that these name is taken in the place of `role`. Of several hosts the one is taken that can be
    written to, unless the URL says otherwise.
    """
    parts = conninfo_to_dict(database_url)
    own = str(parts.get("options") or "")
    options = [
        own,
        "-c timezone=UTC",
        "-c statement_timeout=5000",
        "-c idle_in_transaction_session_timeout=2000",
        f"-c role={role}" if role and not names_role(own) else "",
        more,
    ]
    return {
        "autocommit": True,
        "fallback_application_name": APPLICATION_NAME,
        "target_session_attrs": parts.get("target_session_attrs") or _WRITES,
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": 3000,
        "keepalives": 1,
        "keepalives_idle": 2,
        "keepalives_interval": 1,
        "keepalives_count": 3,
        "options": " ".join(part for part in options if part),
    }


@contextlib.asynccontextmanager
async def connection(pool: Pool, *, seconds: float = CALL_SECONDS) -> AsyncIterator[Connection]:
    """A connection of the pool for at most `seconds`, the wait for it included.

    Raises DatabaseUnavailable for what is wrong with the server or the way to it; other errors of psycopg
    (a constraint, bad SQL) pass through.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    taken = await take(pool, end)
    late = loop.call_at(end, cut, taken)
    try:
        yield taken
    except psycopg.Error as error:
        if isinstance(error, psycopg.OperationalError) or taken.closed:
            raise DatabaseUnavailable(first_line(error)) from error
        raise
    finally:
        late.cancel()
        await pool.putconn(taken)


async def ping(pool: Pool) -> None:
    async with connection(pool, seconds=1.5) as conn:
        await conn.execute("SELECT 1")


async def take(pool: Pool, end: float) -> Connection:
    """A connection that the server has not closed: after its restart a pool is full of dead ones.

    For who keeps it; others use `connection`. Raises DatabaseUnavailable at `end`, on the loop's clock.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            taken = await pool.getconn(timeout=end - loop.time())
        except (PoolTimeout, psycopg.OperationalError) as error:
            raise DatabaseUnavailable("no connection to Postgres in time") from error
        if not is_readable(taken):
            return taken
        await taken.close()
        await pool.putconn(taken)


def is_readable(idle: psycopg.BaseConnection[Any]) -> bool:
    """Whether the server has sent something: on an idle connection, that it closes it. One system call."""
    poll = select.poll()
    try:
        poll.register(idle.pgconn.socket, select.POLLIN)
    except psycopg.OperationalError:
        return True
    return bool(poll.poll(0))


def cut(taken: psycopg.BaseConnection[Any]) -> None:
    """End whatever waits on this connection, from any thread: libpq then reports it as lost.

    Nothing else ends a call to a frozen server: its kernel still acknowledges, and it cannot cancel.
    """
    with contextlib.suppress(OSError, psycopg.OperationalError):
        duplicate = socket.socket(fileno=os.dup(taken.pgconn.socket))
        with contextlib.closing(duplicate):
            duplicate.shutdown(socket.SHUT_RDWR)
