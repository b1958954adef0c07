"""What writes: appends that wait at the same time are stored by one statement.

One connection and one call at a time: what comes while a call is under way goes with the next. Nobody waits
where nothing is under way. Appends to one conversation never go together; one that cannot be stored fails
alone.

A large append takes the log's lock for tens of milliseconds, so it goes alone, and never twice in a row while
small ones wait: a short chat waits for one large append of others at most.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate
from typing import TypeVar

import psycopg
from eventsourcing.persistence import StoredEvent
from psycopg import sql

from conversations.database import EVENTS_TABLE
from conversations.errors import UnstorableEvent, VersionConflict
from conversations.event_store.appending import Condition, Item, parameters, statement
from runtime.logs import get_logger
from runtime.postgres import Connection, DatabaseUnavailable, Pool, connection

APPEND_SECONDS = 4.0
CALL_SECONDS = 2.5
TRANSACTION = "-c lock_timeout=2s -c transaction_timeout=3s"
"""Options of the writer's connection: a turn is waited for, and taken, no longer.

So a writer that is gone or stopped does not keep its turn for ever. CALL_SECONDS <= transaction_timeout: the
writer itself has given up by then.
"""
PLANNED_ONCE = "-c plan_cache_mode=force_generic_plan"
"""Another: whatever is in the arrays, plans are the same. Verifying an agent was planned at each call."""
_RETRY_SECONDS = 0.1
_LARGE_BYTES = 64 * 1024
"""One that is larger goes alone. 900 KB of text take 30 ms, most of it for compression."""
_MAX_BYTES = 1024 * 1024
_CLOSE_SECONDS = 5.0

T = TypeVar("T")
Outcome = str | DatabaseUnavailable | UnstorableEvent | VersionConflict | None
"""What `Append.done` gets, as its result or its exception."""


class Append:
    """One append on its way. `done` gets the server's time (ISO 8601) where it took a lease, else None.

    Or VersionConflict, where it was left out for whatever reason; UnstorableEvent, DatabaseUnavailable.
    """

    def __init__(self, item: Item) -> None:
        loop = asyncio.get_running_loop()
        self.item = item
        self.size = sum(len(event.state) for event in item.stored)
        self.deadline = loop.time() + APPEND_SECONDS
        self.done: asyncio.Future[str | None] = loop.create_future()

    def expire(self) -> None:
        """Nobody waits for it any longer."""
        _settle_future(self.done, DatabaseUnavailable("the append was not confirmed in time"))


class Writer:
    """What waits, and the task that stores it while anything does. Used on one event loop."""

    def __init__(self, pool: Pool, condition: Condition | None = None) -> None:
        self._pool = pool
        self._condition = condition
        self._statements = {with_: statement(condition if with_ else None) for with_ in (True, False)}
        self._waiting: list[Append] = []
        self._storing: asyncio.Task[None] | None = None
        self._large_next = False

    def submit(self, append: Append) -> None:
        """Have it stored; `append.done` gets the outcome."""
        self._waiting.append(append)
        if self._storing is None:
            self._storing = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Store what waits; for some seconds at most."""
        if self._storing is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._storing

    async def _run(self) -> None:
        while batch := self._collect():
            try:
                outcomes = await self._store(batch)
            except Exception as error:  # noqa: BLE001 - the task's outermost loop
                get_logger("conversations.event_store.writer").exception("append_failed")
                outcomes = [(append, DatabaseUnavailable(repr(error))) for append in batch]
            for append, outcome in outcomes:
                _settle_future(append.done, outcome)
        self._storing = None

    def _collect(self) -> list[Append]:
        """What to store next: one large append, or small ones in their order; [] where nothing waits."""
        # Where its caller waits no more, nobody would know of what it does now.
        self._waiting = [append for append in self._waiting if not append.done.done()]
        first: dict[str, Append] = {}
        for append in self._waiting:
            first.setdefault(append.item.conversation_id, append)
        large = next((append for append in first.values() if append.size > _LARGE_BYTES), None)
        batch = [append for append in first.values() if append.size <= _LARGE_BYTES]
        if large is not None and (self._large_next or not batch):
            batch, self._large_next = [large], False
        else:
            ends = accumulate(append.size for append in batch)
            batch = [append for append, end in zip(batch, ends, strict=True) if end <= _MAX_BYTES]
            self._large_next = large is not None
        taken = set(map(id, batch))
        self._waiting = [append for append in self._waiting if id(append) not in taken]
        return batch

    async def _store(self, batch: list[Append]) -> list[tuple[Append, Outcome]]:
        try:
            accepted = await self._try(batch, self._send)
        except DatabaseUnavailable as error:  # of the server, and so of all of them
            return [(append, error) for append in batch]
        except (psycopg.Error, UnicodeError) as error:  # of whichever append: the others go without it
            if len(batch) == 1:
                return [(batch[0], await self._failed(batch[0], error))]
            return [outcome for append in batch for outcome in await self._store([append])]
        return [
            (append, accepted[append.item.conversation_id])
            if append.item.conversation_id in accepted
            else (append, await self._settle(append))
            for append in batch
        ]

    async def _send(self, conn: Connection, batch: list[Append]) -> dict[str, str | None]:
        """The server's time at which each that was stored took its lease."""
        items = [append.item for append in batch]
        begins = self._condition if any(item.beginning for item in items) else None
        cursor = await conn.execute(
            self._statements[begins is not None], parameters(items, begins), prepare=True
        )
        return dict(await cursor.fetchall())

    async def _failed(self, append: Append, error: Exception) -> Outcome:
        """What becomes of an append that failed on its own."""
        match error:
            case psycopg.IntegrityError():
                return await self._settle(append)
            case psycopg.DataError() | UnicodeError():
                return UnstorableEvent(append.item.conversation_id, _first_line(error))
            case psycopg.errors.UndefinedFunction() | psycopg.errors.UndefinedTable():
                return DatabaseUnavailable("the event table has not been created: run the migrations")
            case _:
                get_logger("conversations.event_store.writer").error("append_failed", exc_info=error)
                return DatabaseUnavailable(repr(error))

    async def _settle(self, append: Append) -> Outcome:
        """It was left out. It may be stored by this very append, whose commit was not acknowledged."""
        try:
            found = await self._try([append], _stored)
        except DatabaseUnavailable as error:
            return error
        item = append.item
        if found != [(event.topic, event.state) for event in item.stored]:
            return VersionConflict(item.conversation_id, item.expected)
        return item.beginning.at if item.beginning else None

    async def _try(
        self, batch: list[Append], action: Callable[[Connection, list[Append]], Awaitable[T]]
    ) -> T:
        """Again and again until the deadline, where that may help.

        Raises DatabaseUnavailable, psycopg.Error.
        """
        loop = asyncio.get_running_loop()
        deadline = max(append.deadline for append in batch)
        while True:
            try:
                async with connection(self._pool, seconds=CALL_SECONDS) as conn:
                    return await action(conn, batch)
            except (DatabaseUnavailable, psycopg.InternalError) as error:
                if loop.time() + _RETRY_SECONDS >= deadline:
                    raise DatabaseUnavailable(_first_line(error)) from error
                await asyncio.sleep(_RETRY_SECONDS)


async def _stored(conn: Connection, batch: list[Append]) -> list[tuple[str, bytes]]:
    """What is stored at the versions of an append."""
    item = batch[0].item
    first, last = item.expected, item.expected + len(item.stored)
    cursor = conn.cursor(binary=True)
    await cursor.execute(_STORED, [item.conversation_id, first, last])
    return await cursor.fetchall()


def _settle_future(done: asyncio.Future[str | None], outcome: Outcome) -> None:
    if done.done():
        return  # its caller waits no more
    if isinstance(outcome, Exception):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def events_of(conversation_id: str, version: int, facts: Sequence[tuple[str, bytes]]) -> list[StoredEvent]:
    """(topic, state) pairs as the library's rows after `version`."""
    return [
        StoredEvent(originator_id=conversation_id, originator_version=number, topic=topic, state=state)
        for number, (topic, state) in enumerate(facts, start=version + 1)
    ]


_STORED = sql.SQL(
    "SELECT topic, state FROM {} WHERE originator_id = %s AND originator_version > %s"
    " AND originator_version <= %s ORDER BY originator_version"
).format(sql.Identifier(EVENTS_TABLE))
