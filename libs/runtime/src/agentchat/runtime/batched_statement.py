"""Send calls of one prepared statement that wait at the same time to Postgres together, as arrays.

A single call waits for no others. No statement is sent before the calls in it were made, so a call never gets
a result older than itself.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import psycopg

from agentchat.runtime import postgres
from agentchat.runtime.batching import Batcher

A = TypeVar("A")
R = TypeVar("R")

Rows = Sequence[tuple[Any, ...]]

_UNDONE = (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled, psycopg.errors.DeadlockDetected)
"""Errors by which the server has certainly undone the statement."""

_SHORT_LOCKS = "SET lock_timeout TO '500ms'"
_SHORT_LOCAL_LOCKS = "SET LOCAL lock_timeout TO '2s'"
"""Makes a batch give up early if one call waits for a lock: sent by themselves, the others do not wait."""


class Form(msgspec.Struct, Generic[A, R], frozen=True):
    """A way to combine calls in one statement, whose parameters are `$1`, `$2` and so on.

    `parameters` builds its arrays; `results` takes the calls and the rows, and returns one result for each
    call in their order. If a statement is not `durable`, a crash of the server may lose it. If it is
    `repeatable` and the connection breaks, each call is sent again by itself.
    """

    statement: bytes
    parameters: Callable[[Sequence[A]], Sequence[object]]
    results: Callable[[Sequence[A], Rows], Sequence[R]]
    durable: bool = True
    repeatable: bool = True


class BatchedStatement(Generic[A, R]):
    """One statement at a time, on a connection that it keeps. Close it with `aclose`, before the pool.

    The connection is taken from the pool at the first call, and again after each failure. That costs a third
    less CPU time than taking one for each call.
    """

    def __init__(self, pool: postgres.Pool, form: Form[A, R]) -> None:
        self._pool = pool
        self._form = form
        self._batcher: Batcher[A, R] = Batcher(self._run_batch, seconds=postgres.CALL_SECONDS, inline=True)
        self._connection: postgres.Connection | None = None

    async def call(self, asked: A) -> R:
        """Return the result of one call.

        Raises:
            DatabaseUnavailable: Within 3 s.
            psycopg.Error: The statement also failed with only this call.
        """
        try:
            return await self._batcher.call(asked)
        except TimeoutError:
            raise postgres.DatabaseUnavailable("no answer from Postgres in time") from None

    async def aclose(self) -> None:
        """Finish what is under way, which a call bounds, and give the connection back."""
        await self._batcher.aclose(postgres.CALL_SECONDS)
        await self._give_back()

    async def _run_batch(self, batch: Sequence[A], end: float) -> Sequence[R | BaseException]:
        try:
            rows = await self._execute_batch(batch, end)
        except psycopg.Error as error:
            is_unknown = isinstance(error, psycopg.OperationalError) and not isinstance(error, _UNDONE)
            if is_unknown and not self._form.repeatable:
                raise postgres.DatabaseUnavailable(str(error)) from error
            alone = (self._execute_alone(asked, end) for asked in batch)
            return await asyncio.gather(*alone, return_exceptions=True)
        return self._form.results(batch, rows)

    async def _execute_batch(self, batch: Sequence[A], end: float) -> Rows:
        """Raise DatabaseUnavailable or psycopg.Error on failure."""
        if self._connection is not None and postgres.is_readable(self._connection):
            await self._give_back()  # the server has closed it
        is_new = self._connection is None
        kept = self._connection = self._connection or await postgres.take(self._pool, end)
        late = asyncio.get_running_loop().call_at(end, postgres.cut, kept)
        try:
            if is_new:
                await kept.execute(_SHORT_LOCKS)
                if not self._form.durable:
                    await kept.execute("SET synchronous_commit TO off")
            return await self._execute(kept, batch, prepare=True)
        except BaseException:
            await self._give_back()
            raise
        finally:
            late.cancel()

    async def _execute_alone(self, asked: A, end: float) -> R:
        """Execute one call, not prepared.

        A prepared statement fails for ever once a migration has changed a type.
        """
        async with (
            postgres.acquire_connection(self._pool, seconds=end - asyncio.get_running_loop().time()) as taken,
            taken.transaction(),
        ):
            # The statement must not wait on in the server when its caller has given up.
            await taken.execute(_SHORT_LOCAL_LOCKS)
            return self._form.results([asked], await self._execute(taken, [asked], prepare=False))[0]

    async def _execute(self, conn: postgres.Connection, batch: Sequence[A], *, prepare: bool) -> Rows:
        cursor = psycopg.AsyncRawCursor(conn)
        parameters = self._form.parameters(batch)
        await cursor.execute(self._form.statement, parameters, prepare=prepare, binary=True)
        return await cursor.fetchall()

    async def _give_back(self) -> None:
        kept, self._connection = self._connection, None
        if kept is not None:
            await kept.close()
            await self._pool.putconn(kept)


def index_rows(rows: Rows) -> dict[int, tuple[Any, ...]]:
    """Return the rows by their first column, the ordinality of the unnested arrays, counted from 0."""
    return {row[0] - 1: row for row in rows}
