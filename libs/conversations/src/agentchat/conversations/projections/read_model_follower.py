"""Follow the log into the read models.

One page of events and the new position in each transaction. Each read model has one row in
`projection_positions`. Read models at the same position share the page and the transaction; one that is
behind catches up on its own and then joins the others. A new version of a read model is a new table with its
own name (`runs_2`), which begins at position 0: the release before goes on following its own table. Run by
`projector.worker`.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence

from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections.apply_facts import (
    REFUSALS,
    FactBatch,
    FactReader,
    LogPage,
    apply_batch,
    park_event,
)
from agentchat.conversations.projections.projection import Projection
from agentchat.runtime import failpoints
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import Connection, Pool, acquire_connection

BATCH = 500
_BATCH_SECONDS = 10.0

TABLES = """
CREATE TABLE projection_positions (
    name text PRIMARY KEY,
    position bigint NOT NULL
) WITH (fillfactor = 50);
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


class _PositionMoved(Exception):  # noqa: N818 - not an error: another process was faster
    """A stored position is not the one that this process started from."""


class Follower:
    """Brings read models up to date, one step at a time.

    Safe next to another follower: a step is refused unless the stored positions are those it started from. An
    event that a read model cannot take is parked with an error in the log, and the others continue.
    """

    def __init__(
        self, pool: Pool, log: Log, projections: Sequence[Projection], *, batch: int = BATCH
    ) -> None:
        self._batch = batch
        self._pool = pool
        self._reader = FactReader(log, projections)
        self._projections = projections
        self._positions: dict[str, int] | None = None
        self._logger = get_logger("conversations.follower")

    def forget_positions(self) -> None:
        """Read the stored positions again before the next step."""
        self._positions = None

    async def step(self) -> bool:
        """Apply the next page to each read model; return True if the log has more.

        Raises DatabaseUnavailable.
        """
        # If a step fails, it is unknown what was committed, so the positions are read again.
        positions, self._positions = self._positions, None
        has_more = False
        try:
            if positions is None:
                positions = await self._load_positions()
            starts = sorted(set(positions.values()))
            for start, later in zip(starts, [*starts[1:], None], strict=True):
                has_more |= await self._step_from(start, later, positions)
        except _PositionMoved:
            return True
        self._positions = positions
        return has_more

    async def _load_positions(self) -> dict[str, int]:
        names = [each.name for each in self._projections]
        async with acquire_connection(self._pool, seconds=_BATCH_SECONDS) as conn, conn.transaction():
            await conn.execute(_BEGIN, [names])
            return dict(await (await conn.execute(_POSITIONS, [names])).fetchall())

    async def _step_from(self, start: int, later: int | None, positions: dict[str, int]) -> bool:
        """Advance the read models at `start` by one page, at most to `later`, where others are."""
        group = [each for each in self._projections if positions[each.name] == start]
        names = [each.name for each in group]
        page = await self._reader.read(start, self._batch, later, names)
        if page is None:
            if later is None:
                return False
            page = LogPage(start, later, True, {name: FactBatch() for name in names})
        async with acquire_connection(self._pool, seconds=_BATCH_SECONDS) as conn:
            try:
                await _apply_together(conn, group, page)
            except REFUSALS:
                await self._apply_each(conn, group, page)
        failpoints.reach("projector-batch-committed")
        positions.update(dict.fromkeys(names, page.end))
        # Read models that have just caught up have not joined the others yet.
        return later is not None or not page.is_last

    async def _apply_each(self, conn: Connection, group: Sequence[Projection], page: LogPage) -> None:
        """Apply a page to one read model after the other, to find and park what cannot be applied."""
        async with _page_transaction(conn):
            moved = await conn.execute(_MOVE, [page.end, [each.name for each in group], page.start])
            if moved.rowcount != len(group):
                raise _PositionMoved
            for each in group:
                for refused in await apply_batch(conn, each, page.batches[each.name]):
                    await park_event(conn, each.name, refused)
                    self._logger.error(
                        "event_parked",
                        projection=each.name,
                        position=refused.position,
                        conversation_id=refused.conversation_id,
                        reason=refused.reason,
                    )


async def _apply_together(conn: Connection, group: Sequence[Projection], page: LogPage) -> None:
    """Apply a page in one round trip and that of the commit.

    Raises _PositionMoved, or one of REFUSALS. That is 8 statements for a page of one chat, instead of 25 one
    by one.
    """
    pairs = [(each, page.batches[each.name]) for each in group]
    for _, batch in pairs:
        for _, error in batch.unreadable:
            raise error
    statements = [statement for each, batch in pairs for statement in each.build_statements(batch.facts)]
    async with conn.pipeline() as pipeline, _page_transaction(conn):
        moved = await conn.execute(_MOVE, [page.end, [each.name for each in group], page.start])
        for statement, parameters in statements:
            await conn.execute(statement, parameters)
        await pipeline.sync()
        if moved.rowcount != len(group):
            raise _PositionMoved


@contextlib.asynccontextmanager
async def _page_transaction(conn: Connection) -> AsyncIterator[None]:
    async with conn.transaction():
        yield
        failpoints.reach("projector-in-batch")


_BEGIN = """
INSERT INTO projection_positions (name, position)
SELECT unnest(%s::text[]), 0 ON CONFLICT (name) DO NOTHING
"""

_POSITIONS = "SELECT name, position FROM projection_positions WHERE name = ANY(%s)"

_MOVE = "UPDATE projection_positions SET position = %s WHERE name = ANY(%s) AND position = %s"
