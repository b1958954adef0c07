"""Builds read models again next to the live ones, while writes go on, and ends each in one transaction.

What is built is stored with its position, batch by batch, so a build that was killed is continued where it
was, and the live tables are unchanged until the end: a rebuild swaps, `verifying` compares.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import psycopg

from conversations.database import REBUILD_LOCK
from conversations.errors import RebuildUnderWay
from conversations.event_store.log import Log
from conversations.projections import shadow
from conversations.projections.applying import FactReader, LogPage, RefusedEvent, take
from conversations.projections.log_cursors import lock_positions
from conversations.projections.projection import Projection
from conversations.projections.shadow import Schema, stored_as
from conversations.projections.shards import ALL_SHARDS, take_over
from runtime.following import together
from runtime.postgres import Connection, DatabaseUnavailable, Pool, connection

BATCH = 5000
CONNECTIONS = 3
"""What a build takes of its pool, next to one a projection."""

_BATCH_SECONDS = 20.0
"""A stretch is read and written well within erasures.LATE_SECONDS: none comes after the last pass."""

_DAYS_SECONDS = 30 * 86400.0
_TRIES = 60
_AGAIN_SECONDS = 0.5
_BUSY = (psycopg.errors.LockNotAvailable, psycopg.errors.SerializationFailure)

T = TypeVar("T")


class Watch:
    """Receives a build's progress; this one does nothing with it."""

    def resumed(self, name: str, position: int) -> None:
        """One that was begun before goes on from there."""

    def advanced(self, position: int, head: int) -> None:
        """All are built up to `position`, of a log that ends at `head`."""

    def parked(self, name: str, refused: RefusedEvent) -> None:
        """This event could not be taken, and the others go on."""

    def waits(self, name: str) -> None:
        """It is built, but the live table is in use; the end is tried again."""

    def swapped(self, name: str, position: int) -> None:
        """It is live, and has all up to `position`."""


class Build:
    """Shadows of some projections, and how far each is. `pool` is to have CONNECTIONS more than these."""

    def __init__(
        self,
        pool: Pool,
        log: Log,
        projections: Sequence[Projection],
        schema: Schema,
        *,
        watch: Watch | None = None,
        batch: int = BATCH,
    ) -> None:
        self.positions: dict[str, int] = {}
        self._pool = pool
        self._projections = projections
        self._schema = schema
        self._batch = batch
        self._log = log
        self._reader = FactReader(log, projections)
        self._watch = watch or Watch()

    async def prepare(self) -> None:
        """Make the shadows, or find those that are there. Raises DatabaseUnavailable."""
        for each in self._projections:
            async with connection(self._pool, seconds=_BATCH_SECONDS) as conn, conn.transaction():
                self.positions[each.name] = await shadow.prepare(conn, each, self._schema)
            if self.positions[each.name]:
                self._watch.resumed(each.name, self.positions[each.name])

    async def drop(self) -> None:
        """Remove the shadows. Raises DatabaseUnavailable."""
        await _drop(self._pool, self._projections, self._schema)

    async def advance(self, until: int, *, only: Projection | None = None) -> None:
        """Bring them all, or one, up to `until`, a position of the log. Raises DatabaseUnavailable.

        The next stretch is read while one is written, to all the tables at once.
        """
        projections = self._projections if only is None else (only,)
        position = min(self.positions[each.name] for each in projections)
        reading = asyncio.ensure_future(self._reader.read(position, self._batch, until))
        try:
            while page := await reading:
                reading = asyncio.ensure_future(self._reader.read(page.end, self._batch, until))
                await together([self._write(each, page) for each in projections])
                self._watch.advanced(page.end, until)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def end(
        self,
        projection: Projection,
        target: Callable[[], Awaitable[int]],
        work: Callable[[Connection], Awaitable[T]],
        *,
        seconds: float = _BATCH_SECONDS,
    ) -> T:
        """Bring it up to `target`; then what `work` returns, all in one transaction.

        It is repeated where the live table is in use for too long. Raises DatabaseUnavailable.
        """
        for _ in range(_TRIES):
            await self.advance(await target(), only=projection)
            async with connection(self._pool, seconds=seconds) as conn:
                with contextlib.suppress(*_BUSY):
                    async with conn.transaction():
                        return await work(conn)
            self._watch.waits(projection.name)
            await asyncio.sleep(_AGAIN_SECONDS)
        raise DatabaseUnavailable(f"{projection.name} is built, but its live table is in use without end")

    async def catch_up(self, conn: Connection, projection: Projection, live: Mapping[int, int]) -> int:
        """In an open transaction, bring each shard up to its position in `live`; returns the highest."""
        position = self.positions[projection.name]  # which stays until the transaction is committed
        end = max(live.values(), default=0)

        def wanted(shard: int, at: int) -> tuple[str, ...]:
            return (projection.name,) if at <= live[shard] else ()

        while position < end and (page := await self._reader.read(position, self._batch, end, wanted)):
            await self._bring(conn, projection, page, position)
            position = page.end
        return position

    async def _write(self, projection: Projection, page: LogPage) -> None:
        position = self.positions[projection.name]
        if page.end <= position:
            return
        async with connection(self._pool, seconds=_BATCH_SECONDS) as conn, conn.transaction():
            # Should the server lose it, it loses the position with it.
            await conn.execute("SET LOCAL synchronous_commit TO off")
            await self._bring(conn, projection, page, position)
        self.positions[projection.name] = page.end

    async def _bring(self, conn: Connection, projection: Projection, page: LogPage, start: int) -> None:
        """Raises RebuildUnderWay where somebody else has moved it meanwhile."""
        name = stored_as(projection, self._schema)
        await shadow.enter(conn, self._schema)
        cursor = await conn.execute(_ADVANCE, [page.end, name, projection.version, start])
        if cursor.rowcount != 1:
            raise RebuildUnderWay(projection.name)
        batch = page.batches[projection.name].after(start)
        for refused in await take(conn, projection, batch, name):
            self._watch.parked(projection.name, refused)


async def rebuild(
    pool: Pool, log: Log, projections: Sequence[Projection], watch: Watch | None = None, *, batch: int = BATCH
) -> int:
    """Build them again and make them live, one after the other; returns the position that all have.

    `pool` is to have CONNECTIONS more connections than there are projections. Nobody can follow the log into
    a live one during its swap, so what it has is never less than before.

    Raises RebuildUnderWay where another process does it or a projector of 0.9.0 works, DatabaseUnavailable.
    """
    watch = watch or Watch()
    build = Build(pool, log, projections, "rebuilding", watch=watch, batch=batch)

    async def swap(conn: Connection, projection: Projection) -> int:
        await conn.execute("SET LOCAL idle_in_transaction_session_timeout TO '10s'")
        if not await take_over(conn):
            raise RebuildUnderWay(projection.name, "is the work of a projector of 0.9.0: replace that first")
        await lock_positions(conn)
        row = await (await conn.execute(_LIVE, [projection.name])).fetchone()
        highest = row[0] if row else 0
        position = await build.catch_up(conn, projection, dict.fromkeys(ALL_SHARDS, highest))
        await shadow.swap(conn, projection)
        return position

    async with alone(pool, "rebuilding", projections):
        await build.prepare()
        await build.advance(await log.settled())
        for each in projections:
            build.positions[each.name] = await build.end(each, log.settled, partial(swap, projection=each))
            watch.swapped(each.name, build.positions[each.name])
    return min(build.positions.values())


async def discard(pool: Pool, projections: Sequence[Projection]) -> None:
    """Remove what rebuilds of these have left that did not come to their end.

    Raises RebuildUnderWay, DatabaseUnavailable.
    """
    async with alone(pool, "rebuilding", projections):
        await _drop(pool, projections, "rebuilding")


async def due(pool: Pool, projections: Sequence[Projection]) -> list[Projection]:
    """Those whose live tables are not of this version, or were never filled. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        cursor = await conn.execute("SELECT DISTINCT name, version FROM read_model_positions")
        stored = dict(await cursor.fetchall())
    return [each for each in projections if stored.get(each.name) != each.version]


async def _drop(pool: Pool, projections: Sequence[Projection], schema: Schema) -> None:
    for each in projections:
        async with connection(pool, seconds=_BATCH_SECONDS) as conn, conn.transaction():
            await shadow.drop(conn, each, schema)


@contextlib.asynccontextmanager
async def alone(pool: Pool, schema: Schema, projections: Sequence[Projection]) -> AsyncIterator[None]:
    """While no other process builds any of these there. Raises RebuildUnderWay, DatabaseUnavailable."""
    names = [stored_as(each, schema) for each in projections]
    async with connection(pool, seconds=_DAYS_SECONDS) as conn:
        try:
            for name in names:
                async with asyncio.timeout(_BATCH_SECONDS):
                    row = await (await conn.execute(_LOCK, [REBUILD_LOCK, name])).fetchone()
                if row != (True,):
                    raise RebuildUnderWay(name.partition("@")[0])
            yield
        finally:
            with contextlib.suppress(psycopg.Error):
                await conn.execute("SELECT pg_advisory_unlock_all()")


_ADVANCE = """
UPDATE projection_positions SET position = %s WHERE name = %s AND version = %s AND position = %s
"""

_LIVE = "SELECT coalesce(max(position), 0) FROM read_model_positions WHERE name = %s"

_LOCK = "SELECT pg_try_advisory_lock(%s, hashtext(%s))"
