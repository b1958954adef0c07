"""Connect to Postgres so that a frozen, restarted or unreachable server holds nothing up.

Neither `statement_timeout` nor TCP's own time-outs end a call to a server that is stopped: its kernel still
acknowledges, and it cannot cancel. Cancelling the task waits for the server too. So each use of a connection
has a deadline, at which its socket is shut down: the call fails at once and the pool replaces the connection.
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

from agentchat.runtime.database_roles import SERVICE_ROLE, Service, get_role, has_role_option
from agentchat.runtime.logs import get_first_line
from agentchat.runtime.retry_loops import wait_for_event
from agentchat.runtime.settings import SettingsError

Connection: TypeAlias = AsyncConnection[TupleRow]
Cursor: TypeAlias = AsyncCursor[TupleRow]
Pool: TypeAlias = AsyncConnectionPool[Connection]
OnConnect: TypeAlias = Callable[[Connection], Awaitable[None]]

APPLICATION_NAME = "agentchat"
"""The application name of sessions that set no other."""

CONNECT_SECONDS = 3
CALL_SECONDS = 3.0
_RECONNECT_SECONDS = 2.0
_CANCEL_SECONDS = 0.1
"""The time that a cancelled caller's statement has left. A new connection takes 10 ms, and plans anew."""
_WRITES = "read-write"
_TARGETS = (_WRITES, "primary", "any")


class DatabaseUnavailable(Exception):  # noqa: N818 - the condition is its name
    """Postgres did not answer in time, or the connection broke; a write may or may not have happened.

    Appending the same events again is safe: the store recognises its own.
    """


class _PooledConnection(AsyncConnection[TupleRow]):
    """A connection that is given up if its caller is cancelled during a statement that takes long."""

    async def cancel_safe(self, *, timeout: float = 0.0) -> None:  # noqa: ARG002 - psycopg's signature
        """Let the statement end soon, or shut the socket down: others may wait for this connection.

        psycopg would ask the server over a second connection, and wait even if it is frozen.
        """
        loop, file, answered = asyncio.get_running_loop(), self.pgconn.socket, asyncio.Event()
        loop.add_reader(file, answered.set)
        try:
            if not await wait_for_event(answered, _CANCEL_SECONDS):
                cut(self)
        finally:
            loop.remove_reader(file)


@contextlib.asynccontextmanager
async def open_pool(
    database_url: str,
    *,
    min_size: int = 1,
    max_size: int = 4,
    role: str | None = SERVICE_ROLE,
    durable: bool = True,
    options: str = "",
    idle_seconds: float = 60.0,
    on_connect: OnConnect | None = None,
) -> AsyncIterator[Pool]:
    """Open a pool of autocommit connections that act as `role`, or as the URL says (`act_as`).

    `options` are for the server, after ours: `-c name=value`. If not `durable`, a commit waits neither for
    the disk nor for a standby: a crash or a promotion may lose the last commits, each with everything after
    it. Use that for work that is then repeated. Above `min_size`, one connection is closed each
    `idle_seconds` in which not all were needed. `on_connect` is called with each new connection.

    The pool opens even if Postgres cannot be reached yet. Use it through `acquire_connection`, which bounds
    each call.
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
        max_idle=idle_seconds,
        # The pool's back-off doubles up to this time: short, to find Postgres soon after an outage.
        reconnect_timeout=_RECONNECT_SECONDS,
    )
    await pool.open(wait=False)
    try:
        yield pool
    finally:
        await pool.close(timeout=CALL_SECONDS)


def act_as(database_url: str, service: Service) -> str:
    """Return the same database URL for a service, whose login takes the service's role and no other.

    A login that is the service's own role, or only a member of it, gains nothing by a RESET ROLE.

    Raises:
        SettingsError: The URL is not a Postgres address, or is one of standbys.
    """
    try:
        parts = conninfo_to_dict(database_url)
    except psycopg.ProgrammingError:  # its text may contain the password
        raise SettingsError("AGENTCHAT_DATABASE_URL cannot be used: it is not a Postgres address") from None
    if (target := parts.get("target_session_attrs") or _WRITES) not in _TARGETS:
        raise SettingsError(
            f"AGENTCHAT_DATABASE_URL cannot be used: target_session_attrs={target} names no primary"
        )
    options = parts.get("options") or ""
    return make_conninfo(database_url, options=f"{options} -c role={get_role(service)}".strip())


def connect_options(database_url: str, *, role: str | None = SERVICE_ROLE, more: str = "") -> dict[str, Any]:
    """Return keyword arguments for psycopg's `connect`, next to the URL. The URL's own `options` are kept.

    A role that the URL names takes precedence over `role`. If it names several hosts, a writable one is
    used, unless the URL says otherwise.
    """
    parts = conninfo_to_dict(database_url)
    own = str(parts.get("options") or "")
    options = [
        own,
        "-c timezone=UTC",
        "-c statement_timeout=5000",
        "-c idle_in_transaction_session_timeout=2000",
        f"-c role={role}" if role and not has_role_option(own) else "",
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
async def acquire_connection(pool: Pool, *, seconds: float = CALL_SECONDS) -> AsyncIterator[Connection]:
    """Take a connection from the pool for at most `seconds`, including the wait for it.

    Raises:
        DatabaseUnavailable: The server or the way to it failed. Other errors of psycopg (a constraint,
            bad SQL) pass through.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    taken = await take(pool, end)
    late = loop.call_at(end, cut, taken)
    try:
        yield taken
    except psycopg.Error as error:
        if isinstance(error, psycopg.OperationalError) or taken.closed:
            raise DatabaseUnavailable(get_first_line(error)) from error
        raise
    finally:
        late.cancel()
        await pool.putconn(taken)


async def ping(pool: Pool) -> None:
    """Check that Postgres answers. Raises DatabaseUnavailable."""
    async with acquire_connection(pool, seconds=1.5) as conn:
        await conn.execute("SELECT 1")


async def take(pool: Pool, end: float) -> Connection:
    """Take a connection that the server has not closed: after its restart a pool is full of dead ones.

    Callers that do not keep it use `acquire_connection`.

    Raises:
        DatabaseUnavailable: None was available by `end`, on the loop's clock.
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
    """Return True if the server has sent something; on an idle connection that means it closes it.

    One system call.
    """
    poll = select.poll()
    try:
        poll.register(idle.pgconn.socket, select.POLLIN)
    except psycopg.OperationalError:
        return True
    return bool(poll.poll(0))


def cut(taken: psycopg.BaseConnection[Any]) -> None:
    """Shut the connection's socket down, from any thread; libpq then reports the connection as lost.

    Nothing else ends a call to a frozen server: its kernel still acknowledges, and it cannot cancel.
    """
    with contextlib.suppress(OSError, psycopg.OperationalError):
        duplicate = socket.socket(fileno=os.dup(taken.pgconn.socket))
        with contextlib.closing(duplicate):
            duplicate.shutdown(socket.SHUT_RDWR)
