"""Calls of one prepared statement that wait at the same moment go to Postgres together, as arrays.

A call alone waits for no others, and none is sent before it was made: what it finds is never older than it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import psycopg

from runtime.kept_statement import KeptStatement
from runtime.postgres import CALL_SECONDS, DatabaseUnavailable, Pool

_TOGETHER = 100
"""Calls in one statement: what a socket always has room for."""

A = TypeVar("A")
R = TypeVar("R")

Rows = Sequence[tuple[Any, ...]]


class Form(msgspec.Struct, Generic[A, R], frozen=True):
    """How calls become a statement: `parameters` of Postgres' text form out of them, and an answer to each,
    in their order, out of its rows.

    `alone` answers one call until a time on the loop's clock, where the statement failed with an error.
    A crash of the server may lose what is not `durable`.
    """

    statement: str
    parameters: Callable[[Sequence[A]], Sequence[bytes]]
    answers: Callable[[Sequence[A], Rows], Sequence[R]]
    alone: Callable[[A, float, psycopg.Error], Awaitable[R]]
    durable: bool = True


class BatchedStatement(Generic[A, R]):
    """One at a time, on a connection of the pool's that is kept. Close with `aclose`, before the pool."""

    def __init__(self, pool: Pool, form: Form[A, R]) -> None:
        self._form = form
        self._statement = KeptStatement(pool, form.statement, durable=form.durable)
        self._waiting: list[_Call[A, R]] = []
        self._asking: asyncio.Task[None] | None = None

    async def call(self, asked: A) -> R:
        """Raises DatabaseUnavailable within 3 s, and what `alone` raises."""
        loop = asyncio.get_running_loop()
        call: _Call[A, R] = _Call(asked, loop.time() + CALL_SECONDS, loop.create_future())
        self._waiting.append(call)
        if self._asking is None or self._asking.done():
            self._asking = loop.create_task(self._ask())
        return await call.answer

    async def aclose(self) -> None:
        """Ask nothing any more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._statement.aclose()

    async def _ask(self) -> None:
        """For those who wait, and then for those who came meanwhile."""
        while self._waiting:
            batch, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
            overdue = asyncio.get_running_loop().call_at(batch[0].end, _expire, batch)
            answers: Sequence[R | BaseException]
            try:
                answers = await self._answers(batch)
            except Exception as error:  # noqa: BLE001 - whoever asked has it raised
                answers = [error] * len(batch)
            overdue.cancel()
            for call, answer in zip(batch, answers, strict=True):
                if call.answer.done():  # who asked has gone
                    continue
                if isinstance(answer, BaseException):
                    call.answer.set_exception(answer)
                else:
                    call.answer.set_result(answer)

    async def _answers(self, batch: "Sequence[_Call[A, R]]") -> Sequence[R | BaseException]:
        """In one statement; where that cannot be had, each for itself. Raises DatabaseUnavailable."""
        asked = [call.asked for call in batch]
        try:
            rows = await self._statement.fetch(self._form.parameters(asked), batch[-1].end)
        except psycopg.Error as error:
            alone = (self._form.alone(call.asked, call.end, error) for call in batch)
            return await asyncio.gather(*alone, return_exceptions=True)
        return self._form.answers(asked, rows)


class _Call(msgspec.Struct, Generic[A, R], frozen=True, eq=False):
    """Until `end`, on the loop's clock."""

    asked: A
    end: float
    answer: "asyncio.Future[R]"


def _expire(batch: Sequence[_Call[Any, Any]]) -> None:
    """The time of the oldest is over; those who came later go on waiting for the same answer."""
    loop = asyncio.get_running_loop()
    for call in batch:
        if call.answer.done():
            continue
        if call.end > loop.time():
            loop.call_at(call.end, _expire, batch)
            return
        call.answer.set_exception(DatabaseUnavailable("no answer from Postgres in time"))


def array_of(texts: Sequence[str | None]) -> bytes:
    """A one-dimensional array of them as Postgres reads it. No text has a NUL or a lone surrogate."""
    return b"{%b}" % b",".join(
        b"NULL" if text is None else b'"%b"' % text.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        for text in texts
    )


def places_of(rows: Rows) -> dict[int, tuple[Any, ...]]:
    """Rows by their first column: the place of the call, from 0, where the arrays were unnested with
    their ordinality.
    """
    return {row[0] - 1: row for row in rows}
