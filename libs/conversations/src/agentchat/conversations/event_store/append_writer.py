"""Store appends that wait at the same time by one statement.

Appends to one conversation never share a statement; an append that cannot be stored fails without the others.

A large append takes the writer for tens of milliseconds, so it is sent by itself, and never twice in a row
while small ones wait: a short chat waits for at most one large append of others.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate
from typing import TypeVar

import psycopg
from psycopg import sql

from agentchat.conversations.errors import UnstorableEvent, VersionConflict
from agentchat.conversations.event_store.append_statement import AppendItem
from agentchat.conversations.event_store.recorder import ConversationRecorder
from agentchat.conversations.postgres_sessions import EVENTS_TABLE
from agentchat.runtime.batching import Batcher
from agentchat.runtime.logs import get_first_line, get_logger
from agentchat.runtime.postgres import Connection, DatabaseUnavailable, Pool, acquire_connection

APPEND_SECONDS = 5.0
_LAST_TRY_SECONDS = 1.0
"""No call of an append begins later than this before its deadline."""
CALL_SECONDS = 2.5
TRANSACTION = "-c lock_timeout=500ms -c transaction_timeout=3s"
"""Options of the writer's connection.

The longest wait for a lock, and the longest transaction. So a writer that is gone or stopped does not block
others for ever. CALL_SECONDS <= transaction_timeout: the writer itself has given up by then.
"""
PLANNED_ONCE = "-c plan_cache_mode=force_generic_plan"
"""Another option: one plan whatever is in the arrays.

Verifying an agent was planned at each call.
"""
NOTIFY_SECONDS = 0.02
"""The time from an append to the notification that it shares with those meanwhile: a run makes several."""
_RETRY_SECONDS = 0.1
_LARGE_BYTES = 64 * 1024
"""An append with more bytes is sent by itself.

900 KB of text take 30 ms, most of it for compression.
"""
_MAX_BYTES = 1024 * 1024
_CLOSE_SECONDS = 5.0

_BLOCKED_SECONDS = 0.02
_ROW_BLOCKED_SECONDS = 0.5
"""Pauses before an append is sent again that waits for another append, or for a locked row."""

T = TypeVar("T")


class _BlockedAppend(Exception):  # noqa: N818 - an outcome
    """Another transaction holds a lock that the append needs."""

    def __init__(self, pause: float = _BLOCKED_SECONDS) -> None:
        super().__init__()
        self.pause = pause


Outcome = str | DatabaseUnavailable | UnstorableEvent | VersionConflict | _BlockedAppend | None


class Writer:
    """Awaits the recorder's calls: one connection and one call at a time.

    Used on one event loop. Close with `aclose`.
    """

    def __init__(self, recorder: ConversationRecorder, pool: Pool) -> None:
        self._recorder = recorder
        self._pool = pool
        self._batcher: Batcher[AppendItem, str | None] = Batcher(
            self._store, seconds=APPEND_SECONDS, select=self._select, inline=True
        )
        self._notifier = _Notifier(pool)
        self._large_next = False

    async def append(self, item: AppendItem) -> str | None:
        """Store an append and return the server's time (ISO 8601) if it took a lease, else None.

        An append whose caller stops waiting before it is sent is not sent. Raises VersionConflict if it was
        left out for whatever reason; UnstorableEvent, DatabaseUnavailable. While another append holds the
        conversation's lock, only this one waits.
        """
        try:
            async with asyncio.timeout(APPEND_SECONDS):
                while True:
                    try:
                        return await self._batcher.call(item)
                    except _BlockedAppend as blocked:
                        await asyncio.sleep(blocked.pause)
        except TimeoutError:
            raise DatabaseUnavailable("the append was not confirmed in time") from None

    async def aclose(self) -> None:
        """Store what waits, for a few seconds at most."""
        await self._batcher.aclose(_CLOSE_SECONDS)
        await self._notifier.aclose()

    def _select(self, waiting: Sequence[AppendItem]) -> Sequence[int]:
        """Choose what to store next.

        One large append, or small ones in order, one of each conversation.
        """
        first: dict[str, int] = {}
        for place, item in enumerate(waiting):
            first.setdefault(item.conversation_id, place)
        sizes = {place: sum(len(event.state) for event in waiting[place].stored) for place in first.values()}
        small = [place for place, size in sizes.items() if size <= _LARGE_BYTES]
        large = next((place for place, size in sizes.items() if size > _LARGE_BYTES), None)
        if large is not None and (self._large_next or not small):
            self._large_next = False
            return [large]
        self._large_next = large is not None
        ends = accumulate(sizes[place] for place in small)
        return [place for place, end in zip(small, ends, strict=True) if end <= _MAX_BYTES]

    async def _store(self, items: Sequence[AppendItem], end: float) -> list[Outcome]:
        try:
            accepted = await self._try(items, end, self._send)
        except DatabaseUnavailable as error:
            if not _is_lock_timeout(error):
                return [error] * len(items)  # the server is away, for all of them
            if len(items) == 1:
                return [_BlockedAppend(_ROW_BLOCKED_SECONDS)]
            return [outcome for item in items for outcome in await self._store([item], end)]
        except (psycopg.Error, UnicodeError) as error:  # one of them is refused: find out which
            if len(items) == 1:
                return [await self._explain_failure(items[0], end, error)]
            return [outcome for item in items for outcome in await self._store([item], end)]
        return [
            accepted[item.conversation_id]
            if item.conversation_id in accepted
            else await self._settle(item, end)
            for item in items
        ]

    async def _send(
        self, conn: Connection, items: Sequence[AppendItem]
    ) -> dict[str, str | _BlockedAppend | None]:
        """Store the items; return the server's time at which each stored one took its lease."""
        query, values = self._recorder.build_call(items, waits=False)
        try:
            cursor = await conn.execute(query, values, prepare=True)
        finally:  # the server may store them after the caller has gone, too
            self._notifier.note_append()
        return {
            conversation_id: _BlockedAppend() if blocked else leased_at
            for conversation_id, leased_at, blocked in await cursor.fetchall()
        }

    async def _explain_failure(self, item: AppendItem, end: float, error: Exception) -> Outcome:
        """Return the outcome of an append that failed on its own."""
        match error:
            case psycopg.IntegrityError():
                return await self._settle(item, end)
            case psycopg.DataError() | UnicodeError():
                return UnstorableEvent(item.conversation_id, get_first_line(error))
            case psycopg.errors.UndefinedFunction() | psycopg.errors.UndefinedTable():
                return DatabaseUnavailable("the event table has not been created: run the migrations")
            case _:
                get_logger("agentchat.conversations.event_store.append_writer").error(
                    "append_failed", conversation_id=item.conversation_id, exc_info=error
                )
                return DatabaseUnavailable(repr(error))

    async def _settle(self, item: AppendItem, end: float) -> Outcome:
        """Find out why it was left out.

        It may be stored by this append, whose commit was not acknowledged.
        """
        try:
            found = await self._try([item], end, _read_stored)
        except DatabaseUnavailable as error:
            return error
        if found != [(event.topic, event.state) for event in item.stored]:
            return VersionConflict(item.conversation_id, item.expected)
        return item.beginning.at if item.beginning else None

    async def _try(
        self,
        items: Sequence[AppendItem],
        end: float,
        action: Callable[[Connection, Sequence[AppendItem]], Awaitable[T]],
    ) -> T:
        """Retry until the deadline if that may help.

        Raises DatabaseUnavailable, psycopg.Error.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with acquire_connection(self._pool, seconds=CALL_SECONDS) as conn:
                    return await action(conn, items)
            except (DatabaseUnavailable, psycopg.InternalError) as error:
                if _is_lock_timeout(error):
                    raise
                if loop.time() + _RETRY_SECONDS >= end - _LAST_TRY_SECONDS:
                    raise DatabaseUnavailable(get_first_line(error)) from error
                await asyncio.sleep(_RETRY_SECONDS)


class _Notifier:
    """Notifies the followers of the log NOTIFY_SECONDS after an append.

    It uses a statement of its own: a transaction that notifies holds one lock of the database until its
    commit is on the disk, and on the standby, unless it does nothing else. Followers also poll, in case a
    notification is lost. `projector.leader_election` listens.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._due = False
        self._task: asyncio.Task[None] | None = None

    def note_append(self) -> None:
        """Note that there may be something new."""
        self._due = True
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def aclose(self) -> None:
        """Send a due notification."""
        task = self._task  # its end sets the attribute to None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._due:
            await self._notify()

    async def _run(self) -> None:
        try:
            while self._due:
                await asyncio.sleep(NOTIFY_SECONDS)
                await self._notify()
        finally:
            self._task = None

    async def _notify(self) -> None:
        with contextlib.suppress(DatabaseUnavailable, psycopg.Error):
            async with acquire_connection(self._pool, seconds=CALL_SECONDS) as conn:
                self._due = False
                try:
                    await conn.execute(_NOTIFY)
                except BaseException:
                    self._due = True
                    raise


def _is_lock_timeout(error: Exception) -> bool:
    return isinstance(error.__cause__, psycopg.errors.LockNotAvailable)


async def _read_stored(conn: Connection, items: Sequence[AppendItem]) -> list[tuple[str, bytes]]:
    """Return what is stored at the versions of an append."""
    item = items[0]
    first, last = item.expected, item.expected + len(item.stored)
    cursor = conn.cursor(binary=True)
    await cursor.execute(_STORED, [item.conversation_id, first, last])
    return await cursor.fetchall()


_NOTIFY = sql.SQL("NOTIFY {}").format(sql.Identifier(EVENTS_TABLE)).as_bytes()

_STORED = sql.SQL(
    "SELECT topic, state FROM {} WHERE originator_id = %s AND originator_version > %s"
    " AND originator_version <= %s ORDER BY originator_version"
).format(sql.Identifier(EVENTS_TABLE))
