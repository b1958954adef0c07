"""Follows the log into projections: a batch, and how far it goes, in one transaction.

Projections and shards that are at the same position share the reading and the transaction; what lags catches
up on its own and then joins the others. A projection whose tables are of another version is left as it is,
until somebody has built it again (`rebuilding`).
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection, Iterable, Sequence

import msgspec
from psycopg import sql

from conversations.event_store.log import Log
from conversations.projections import runs_table, usage_table
from conversations.projections.applying import (
    REFUSALS,
    FactBatch,
    FactReader,
    LogPage,
    LongErasure,
    take,
)
from conversations.projections.log_cursors import LogCursor, claim, move, place
from conversations.projections.projection import Projection
from conversations.projections.shards import ALL_SHARDS, SHARDS, note_positions, take_over
from runtime import failpoints
from runtime.logs import get_logger
from runtime.postgres import Connection, Cursor, Pool, connection

BATCH = 500
PIECE = 2000
"""Rows of an erased conversation that one transaction deletes."""
LOOK_SECONDS = 1.0
"""After so long it is looked again for a read model that was left alone."""
NOTE_SECONDS = 1.0
"""From one note of the positions, for those who need no exact ones, to the next."""
_BATCH_SECONDS = 10.0

TABLES = """
CREATE TABLE projection_positions (
    name text PRIMARY KEY,
    version integer NOT NULL,
    position bigint NOT NULL
);
CREATE TABLE parked_events (
    projection text NOT NULL,
    position bigint NOT NULL,
    conversation_id text NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (projection, position)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON projection_positions, parked_events TO agentchat_service;
"""


class _Moved(Exception):  # noqa: N818 - not an error: another process got there first
    """A cursor that this process went on from is not stored any more."""


class Follower:
    """Brings projections up to date, a step at a time. Safe next to another: the stored positions decide.

    It applies what is of the accounts in the shards that it holds. An event that a projection cannot take is
    parked, loudly, and the others go on. A projection without a stored position is emptied and begins here if
    `reset`; else it is left alone too.
    """

    def __init__(
        self,
        pool: Pool,
        log: Log,
        projections: Sequence[Projection],
        *,
        batch: int = BATCH,
        reset: bool = True,
        shards: Collection[int] = ALL_SHARDS,
    ) -> None:
        self._pool = pool
        self._reader = FactReader(log, projections)
        self._projections = projections
        self._reset = reset
        self.batch = batch
        self._wanted = frozenset(shards)
        self._held: dict[int, float] = {}  # and when it was at the end of the log
        self._cursors: list[LogCursor] | None = None
        self._look_again = False
        self._looked_at = 0.0
        self._left_alone: set[str] = set()
        self._noted: list[int] = []
        self._noted_at = float("-inf")
        self._stepping = asyncio.Lock()
        self._logger = get_logger("conversations.follower")

    async def hold(self, shards: Collection[int]) -> None:
        """Apply what is of these shards from the next step on. On return no step works on another."""
        self._wanted = frozenset(shards)
        if not self._wanted.issuperset(self._held):
            async with self._stepping:
                self._take_wanted()

    def _take_wanted(self) -> None:
        if self._wanted != self._held.keys():
            self._held = {shard: self._held.get(shard, time.monotonic()) for shard in self._wanted}
            self._cursors = None

    def lag(self, shard: int) -> float | None:
        """For how many seconds it was not at the end of the log with a shard; None for one that it does not
        hold.
        """
        at_end = self._held.get(shard)
        return None if at_end is None else time.monotonic() - at_end

    async def step(self) -> int:
        """Apply the next batch to each projection; returns how many entries there were: less than `batch` at
        the log's end. Raises DatabaseUnavailable.
        """
        async with self._stepping:
            self._take_wanted()
            return await self._step() if self._held else 0

    async def _step(self) -> int:
        cursors, self._cursors = self._cursors, None  # should it fail, what was committed is unknown
        found = 0
        try:
            if cursors is None or self._should_look():
                self._look_again, self._looked_at = False, time.monotonic()
                cursors = await self._begin()
            if cursors is None:
                return 0
            places = sorted({each.position for each in cursors})
            for start, later in zip(places, [*places[1:], None], strict=False):
                found += await self._step_from(start, later, cursors)
            positions = sorted({each.position for each in cursors})
            if found < self.batch and positions != self._noted:
                await self._note(positions)
        except _Moved:
            return self.batch  # there may be more
        if len(positions) == len(places):  # else they are claimed again, as one
            self._cursors = cursors
        return found

    async def _note(self, positions: list[int]) -> None:
        """At the end of the log, once a second at most."""
        if time.monotonic() - self._noted_at > NOTE_SECONDS:
            async with connection(self._pool, seconds=_BATCH_SECONDS) as conn:
                await note_positions(conn)
            self._noted, self._noted_at = positions, time.monotonic()

    def look_again(self) -> None:
        """Somebody has built projections again: the next step looks for them."""
        self._look_again = True

    def _should_look(self) -> bool:
        """Another process may have built what is left alone here."""
        missed = bool(self._left_alone) and time.monotonic() - self._looked_at > LOOK_SECONDS
        return self._look_again or missed

    async def _begin(self) -> list[LogCursor] | None:
        """The cursors of those that are of this version; None while a projector of 0.9.0 works."""
        versions = {each.name: each.version for each in self._projections}
        async with connection(self._pool, seconds=_BATCH_SECONDS) as conn, conn.transaction():
            if not await take_over(conn):
                self._logger.warning("earlier_projector_leads")
                return None
            if self._reset:
                await self._reset_unknown(conn)
            claimed = await claim(conn, self._held, versions)
        stored = {name: version for each in claimed for name, version in each.versions.items()}
        known, self._left_alone = self._left_alone, set()
        for name, version in versions.items():
            if (found := stored.get(name)) != version:
                self._left_alone.add(name)
                if name not in known:
                    self._logger.info("left_alone", projection=name, stored=found, version=version)
        return [each for each in claimed if each.versions.items() <= versions.items()]

    async def _reset_unknown(self, conn: Connection) -> None:
        for each in self._projections:
            if (await conn.execute(_INSERT, [each.name])).rowcount:
                await conn.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(each.name)))
                await conn.execute("DELETE FROM parked_events WHERE projection = %s", [each.name])
                await place(conn, each.name, each.version, ALL_SHARDS, 0)

    async def _step_from(self, position: int, later: int | None, cursors: Iterable[LogCursor]) -> int:
        """From `position` on, but not beyond `later`, where others are."""
        moved = [each for each in cursors if each.position == position]
        names_of = _names_by_shard(moved)
        # As many of its own as a batch has, where the accounts are alike.
        limit = self.batch * SHARDS // len(names_of)
        page = await self._reader.read(
            position, limit, later, lambda shard, _: names_of.get(shard, ()), names_of
        )
        if page is None and later is not None:
            page = LogPage(position, 0, later, {each.name: FactBatch() for each in self._projections})
        if page is None:
            self._note_end(names_of)
            return 0
        names = set().union(*names_of.values())
        group = [each for each in self._projections if each.name in names]
        for erasure in page.erased:
            await _clear(self._pool, erasure, group)
        async with connection(self._pool, seconds=_BATCH_SECONDS) as conn:
            try:
                await _take_together(conn, moved, group, page)
            except REFUSALS:
                await self._take_each(conn, moved, group, page)
        failpoints.reach("projector-batch-committed")
        for each in moved:
            each.position = page.end
        if later is not None:
            return page.size and self.batch  # they have not joined the others yet
        if page.size >= limit:
            return self.batch
        self._note_end(names_of)
        return min(page.size, self.batch - 1)

    def _note_end(self, shards: Iterable[int]) -> None:
        self._held.update(dict.fromkeys(shards, time.monotonic()))

    async def _take_each(
        self, conn: Connection, moved: Sequence[LogCursor], group: Sequence[Projection], page: LogPage
    ) -> None:
        """In one transaction too, one after the other: what cannot be taken is found, and parked."""
        async with _batch(conn):
            _check_all(await move(conn, moved, page.end))
            for each in group:
                for refused in await take(conn, each, page.batches[each.name], each.name):
                    fields = msgspec.structs.asdict(refused)
                    self._logger.error("event_parked", projection=each.name, **fields)


async def _take_together(
    conn: Connection, moved: Sequence[LogCursor], group: Sequence[Projection], page: LogPage
) -> None:
    """In one round trip, and that of the commit. Raises _Moved, or one of REFUSALS.

    8 statements for a page of one chat, where one by one takes 25 (decision 46).
    """
    pairs = [(each, page.batches[each.name]) for each in group]
    for _, batch in pairs:
        for _, error in batch.unreadable:
            raise error
    statements = [statement for each, batch in pairs for statement in each.statements(batch.facts)]
    async with conn.pipeline() as pipeline, _batch(conn):
        # First of all, as in a swap: who waits for a cursor then finds the table that belongs to it.
        moves = await move(conn, moved, page.end)
        for statement, parameters in statements:
            await conn.execute(statement, parameters)
        await pipeline.sync()
        _check_all(moves)


async def _clear(pool: Pool, erasure: LongErasure, projections: Sequence[Projection]) -> None:
    """Delete the rows of a long conversation in pieces, before its ConversationErased is taken, which deletes
    the rest: no transaction is long, and after a kill it is done again. It is not listed meanwhile.

    What its runs cost stays, unless its ConversationErased has it merged: then it goes with the runs' rows.
    Raises DatabaseUnavailable.
    """
    merged = erasure.merged and {usage_table.PROJECTION.name, runs_table.PROJECTION.name} <= {
        p.name for p in projections
    }
    for each in projections:
        if each.name == usage_table.PROJECTION.name:
            continue
        with_usage = merged and each.name == runs_table.PROJECTION.name
        statement = (_DELETE_WITH_USAGE if with_usage else _DELETE).format(sql.Identifier(each.name))
        while await _deleted(pool, statement, erasure.conversation_id) == PIECE:
            pass


async def _deleted(pool: Pool, statement: sql.Composed, conversation_id: str) -> int:
    async with connection(pool) as conn:
        return (await conn.execute(statement, {"id": conversation_id, "most": PIECE})).rowcount


@contextlib.asynccontextmanager
async def _batch(conn: Connection) -> AsyncIterator[None]:
    """The transaction of a page."""
    async with conn.transaction():
        yield
        failpoints.reach("projector-in-batch")


def _check_all(moves: Sequence[Cursor]) -> None:
    if any(each.rowcount != 1 for each in moves):
        raise _Moved


def _names_by_shard(cursors: Iterable[LogCursor]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for each in cursors:
        for shard in each.shards:
            found.setdefault(shard, set()).update(each.versions)
    return found


_INSERT = """
INSERT INTO projection_positions (name, version, position) VALUES (%s, 0, 0) ON CONFLICT (name) DO NOTHING
"""

_DELETE = sql.SQL(
    "DELETE FROM {0}"
    " WHERE ctid = ANY (ARRAY(SELECT ctid FROM {0} WHERE conversation_id = %(id)s LIMIT %(most)s))"
)
_DELETE_WITH_USAGE = sql.SQL(
    "WITH gone AS ("
    "  DELETE FROM {0}"
    "   WHERE ctid = ANY (ARRAY(SELECT ctid FROM {0} WHERE conversation_id = %(id)s LIMIT %(most)s))"
    "  RETURNING trace_id),"
    " costs AS (DELETE FROM usage USING gone WHERE usage.trace_id = gone.trace_id)"
    " SELECT FROM gone"
)
