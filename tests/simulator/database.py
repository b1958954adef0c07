"""A process's way to Postgres: what stands for its pools, its listening session, the log and the writer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

import psycopg

from agentchat.contracts import events
from agentchat.contracts.ownership import Owner
from agentchat.conversations.errors import VersionConflict
from agentchat.conversations.event_store import event_log as log_module
from agentchat.conversations.event_store.append_statement import AppendItem
from agentchat.conversations.event_store.append_writer import APPEND_SECONDS
from agentchat.conversations.event_store.event_log import Log, LogEntry
from agentchat.conversations.leases import database_availability
from agentchat.runtime.postgres import CALL_SECONDS, DatabaseUnavailable
from tests.simulator.model import ACCOUNT
from tests.simulator.postgres import ENDS, Postgres, Row
from tests.simulator.process import Process


class SimPool:
    """A pool of a process; `connection` makes its connections of it."""

    def __init__(self, process: Process, postgres: Postgres) -> None:
        self.process = process
        self.postgres = postgres


class _Connection:
    """A connection of a pool, for so many seconds."""

    def __init__(self, pool: SimPool, seconds: float) -> None:
        self._pool = pool
        self._seconds = seconds

    async def __aenter__(self) -> "_Connection":
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def execute(self, statement: Any, parameters: Any = (), **_: Any) -> "_Cursor":
        pool = self._pool
        meaning = pool.postgres.statements.get(id(statement))
        if meaning is None:
            raise AssertionError(f"the simulator does not know this statement: {statement!r}")

        if statement is database_availability._NOTE and pool.process.alive and pool.process.postgres.up:
            meaning(**parameters)  # each second in three processes, and nothing hangs on when: no call
            return _Cursor([])

        def effect() -> list[Row]:
            return meaning(**parameters) if isinstance(parameters, Mapping) else meaning(*parameters)

        rows = await pool.process.call(
            pool.process.postgres, meaning.__name__, effect, patience=self._seconds, away=DatabaseUnavailable
        )
        return _Cursor(rows)


class _Cursor:
    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows
        self.rowcount = len(rows)

    async def fetchone(self) -> Row | None:
        return self._rows[0] if self._rows else None

    async def fetchall(self) -> list[Row]:
        return self._rows


def connection(pool: SimPool, *, seconds: float = CALL_SECONDS) -> _Connection:
    """As `runtime.postgres.acquire_connection`."""
    return _Connection(pool, seconds)


class SimSession:
    """A connection that listens; it breaks where Postgres is not reached."""

    def __init__(self, pool: SimPool) -> None:
        self.closed = False
        self._pool = pool
        self._came: list[str] = []
        self._news = asyncio.Event()

    def notify(self, payload: str) -> None:
        """Somebody has said something, if this still hears it."""
        process = self._pool.process
        if process.alive and process.postgres.up:
            process.loop.call_soon(self._take, payload)

    def _take(self, payload: str) -> None:
        self._came.append(payload)
        self._news.set()

    async def take(self, seconds: float) -> list[str]:
        """What comes in so long. Raises psycopg.OperationalError."""
        if not self._came:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        if not self._pool.process.postgres.up:
            raise psycopg.OperationalError
        came, self._came = self._came, []
        return came


@contextlib.asynccontextmanager
async def open_session(pool: SimPool, _name: str) -> AsyncIterator[SimSession]:
    """As `conversations.postgres_sessions.open_session`; the pool stands for the URL."""
    session = SimSession(pool)
    try:
        yield session
    finally:
        session.closed = True


async def listen(session: SimSession, _channel: str) -> None:
    """As `conversations.postgres_sessions.listen`."""
    pool = session._pool
    await pool.process.call(
        pool.process.postgres,
        "listen",
        lambda: pool.postgres.add_listener(session),
        patience=CALL_SECONDS,
        away=psycopg.OperationalError,
    )


async def notifications(session: SimSession, *, seconds: float) -> list[str]:
    """As `conversations.postgres_sessions.wait_for_notifications`."""
    return await session.take(seconds)


class SimLog(Log):
    """A reader of the log: its own code up to the query."""

    def __init__(self, pool: SimPool) -> None:
        super().__init__(pool)  # type: ignore[arg-type]  # as much of a pool as it needs
        self._sim = pool

    async def find_owners(self, conversation_ids: Collection[str]) -> dict[str, Owner]:
        """There is one account."""
        return dict.fromkeys(conversation_ids, Owner(ACCOUNT))

    async def _fetch_entries(
        self, query: Any, parameters: Sequence[Any] | Mapping[str, Any]
    ) -> list[LogEntry]:
        pool = self._sim
        if query is log_module._ROWS:
            assert not isinstance(parameters, Mapping)
            conversation_id, after, until, entries, _ = parameters
            assert until is None, "nobody asks for a past state"

            def rows() -> list[LogEntry]:
                return pool.postgres.threads.get(conversation_id, [])[after : after + entries]
        elif query is log_module._ROWS_OF_RUN:
            assert isinstance(parameters, Mapping)
            named = parameters

            def rows() -> list[LogEntry]:
                return _of_run(pool.postgres, named["conversation"], named["trace"], named["after"])
        elif query is log_module._NEWEST_RUN:
            assert isinstance(parameters, Mapping)
            thread = parameters["conversation"]

            def rows() -> list[LogEntry]:
                return _newest_run(pool.postgres.threads.get(thread, []))
        else:
            raise AssertionError(f"the simulator does not know this query: {query!r}")
        return await pool.process.call(
            pool.process.postgres, "rows", rows, patience=CALL_SECONDS, away=DatabaseUnavailable
        )


def _of_run(postgres: Postgres, conversation_id: str, trace_id: str, after: int | None) -> list[LogEntry]:
    """From a run's message to its end."""
    stored = postgres.events.get(conversation_id, [])
    begun = [
        number
        for number, event in enumerate(stored)
        if isinstance(event, events.RunStarted) and event.trace_id == trace_id
    ]
    if after is None:
        if not begun:
            return []
        after = begun[0] - 1
    last = len(stored)
    for number, event in enumerate(stored):
        if isinstance(event, ENDS) and event.trace_id == trace_id:
            last = number + 1
            break
    return postgres.threads[conversation_id][after:last] if stored else []


def _newest_run(stored: list[LogEntry]) -> list[LogEntry]:
    """From the newest message on; nobody describes a conversation."""
    said = [
        number
        for number, entry in enumerate(stored)
        if entry.topic == "message_saved.v1" and b'"steers":"' not in entry.state
    ]
    return stored[max(said, default=-1) :]


_PATIENCE_SECONDS = 4.0


class SimWriter:
    """In place of the writer: one append at a time, sent again as it does, each with its own outcome."""

    def __init__(self, pool: SimPool) -> None:
        self._pool = pool

    async def append(self, item: AppendItem) -> str | None:
        done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._pool.process.spawn(self._store(item, done))
        try:
            async with asyncio.timeout(APPEND_SECONDS):
                return await done
        except TimeoutError:
            raise DatabaseUnavailable("the append was not confirmed in time") from None

    async def _store(self, item: AppendItem, done: "asyncio.Future[str | None]") -> None:
        process = self._pool.process
        try:
            at = await process.call(
                process.postgres,
                f"append {len(item.stored)}",
                lambda: self._pool.postgres.append(item),
                patience=_PATIENCE_SECONDS,
                away=DatabaseUnavailable,
                again=True,  # it finds its own events stored
            )
        except (DatabaseUnavailable, VersionConflict) as error:
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(at)
