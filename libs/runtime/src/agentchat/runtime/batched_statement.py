"""Calls of one prepared statement that wait at the same time go to Postgres together, as arrays.

A call alone waits for no others, and none is sent before it was made: what it finds is never older than it.
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


class Form(msgspec.Struct, Generic[A, R], frozen=True):
    """How calls become a statement: its `parameters`, which are arrays, and a result for each call, in their
    order, out of its rows.

    A crash of the server may lose what is not `durable`. What is `repeatable` is sent again, each call alone,
    where the connection broke.
    """

    statement: bytes
    parameters: Callable[[Sequence[A]], Sequence[object]]
    results: Callable[[Sequence[A], Rows], Sequence[R]]
    durable: bool = True
    repeatable: bool = True


class BatchedStatement(Generic[A, R]):
    """One call at a time, on a connection of the pool's that is kept. Close with `aclose`, before the pool.

    The connection is taken at the first call, and again after each failure. It costs a third less CPU time
    than one from the pool each time.
    """

    def __init__(self, pool: postgres.Pool, form: Form[A, R]) -> None:
        self._pool = pool
        self._form = form
        self._batcher: Batcher[A, R] = Batcher(self._results, seconds=postgres.CALL_SECONDS)
        self._connection: postgres.Connection | None = None

    async def call(self, asked: A) -> R:
        """Raises DatabaseUnavailable within 3 s; psycopg.Error where the statement failed alone too."""
        try:
            return await self._batcher.call(asked)
        except TimeoutError:
            raise postgres.DatabaseUnavailable("no answer from Postgres in time") from None

    async def aclose(self) -> None:
        await self._batcher.aclose()
        await self._give_back()

    async def _results(self, batch: Sequence[A], end: float) -> Sequence[R | BaseException]:
        try:
            rows = await self._rows(batch, end)
        except psycopg.Error as error:
            if isinstance(error, psycopg.OperationalError) and not self._form.repeatable:
                raise postgres.DatabaseUnavailable(str(error)) from error
            alone = (self._alone(asked, end) for asked in batch)
            return await asyncio.gather(*alone, return_exceptions=True)
        return self._form.results(batch, rows)

    async def _rows(self, batch: Sequence[A], end: float) -> Rows:
        """Raises DatabaseUnavailable, psycopg.Error."""
        if self._connection is not None and postgres.is_readable(self._connection):
            await self._give_back()  # the server has closed it
        is_new = self._connection is None
        kept = self._connection = self._connection or await postgres.take(self._pool, end)
        late = asyncio.get_running_loop().call_at(end, postgres.cut, kept)
        try:
            if is_new and not self._form.durable:
                await kept.execute("SET synchronous_commit TO off")
            return await self._execute(kept, batch, prepare=True)
        except BaseException:
            await self._give_back()
            raise
        finally:
            late.cancel()

    async def _alone(self, asked: A, end: float) -> R:
        """Not prepared: a prepared statement fails for ever where a migration has changed a type."""
        async with postgres.connection(self._pool, seconds=end - asyncio.get_running_loop().time()) as taken:
            return self._form.results([asked], await self._execute(taken, [asked], prepare=False))[0]

    async def _execute(self, conn: postgres.Connection, batch: Sequence[A], *, prepare: bool) -> Rows:
        cursor = conn.cursor(binary=True)
        await cursor.execute(self._form.statement, self._form.parameters(batch), prepare=prepare)
        return await cursor.fetchall() if cursor.description else ()

    async def _give_back(self) -> None:
        kept, self._connection = self._connection, None
        if kept is not None:
            await kept.close()
            await self._pool.putconn(kept)


def places_of(rows: Rows) -> dict[int, tuple[Any, ...]]:
    """Rows by their first column: the place of the call, from 0, where the arrays were unnested with
    their ordinality.
    """
    return {row[0] - 1: row for row in rows}
