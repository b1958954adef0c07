"""What becomes of a conversation's events once it is erased, and what is left to remove elsewhere.

To append ConversationErased is to erase: no reader sees the conversation's earlier events from then on, and
their rows go with it or soon after (`erased_rows`), which writes down in `erasures` whose copies are still to
be removed. `append_events` stores nothing after an erasure, so that a worker who was only paused cannot bring
content back.
"""

from collections.abc import Mapping

import msgspec
from psycopg import sql

from runtime.postgres import Pool, connection

LATE_SECONDS = 60
"""So long after the first pass a second one removes what a worker that was paused has said meanwhile."""

TABLES = """
CREATE TABLE erasures (
    conversation_id text PRIMARY KEY,
    position bigint NOT NULL,
    positions bigint[] NOT NULL,
    trace_ids text[] NOT NULL,
    passes integer NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    forgotten integer NOT NULL DEFAULT 0
);
CREATE INDEX erasures_due_idx ON erasures (due_at);
GRANT SELECT, UPDATE, DELETE ON erasures TO agentchat_service;
"""


class Erasure(msgspec.Struct, frozen=True):
    """An erased conversation whose copies are to be removed: ids and places, no content.

    `position` is that of its ConversationErased in the log, `positions` are those of the events it had, or of
    those in a `piece` of them: 0 is what went with the tombstone (`erased_rows`). The first `forgotten` of
    these have left EVENTS in the pass under way, before which there were `passes`.
    """

    conversation_id: str
    position: int
    positions: list[int]
    trace_ids: list[str]
    passes: int
    forgotten: int = 0
    piece: int = 0


async def due_erasures(pool: Pool, *, limit: int) -> list[Erasure]:
    """The oldest that a pass is due for. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        return [Erasure(*row) for row in await (await conn.execute(_DUE, {"limit": limit})).fetchall()]


async def forget_rows(pool: Pool, erasure: Erasure) -> None:
    """Delete what this package's tables hold of the conversation in addition to log and read models.

    Its idempotency keys stay, so that none of its requests runs again. Raises DatabaseUnavailable.
    """
    conversation_id = erasure.conversation_id
    async with connection(pool) as conn, conn.transaction():
        for statement in _BY_TRACE:
            await conn.execute(statement, [erasure.trace_ids])
        for statement in _BY_CONVERSATION:
            await conn.execute(statement, [conversation_id])


async def note_progress(pool: Pool, erasure: Erasure, forgotten: int) -> None:
    """So many of its positions are done in this pass; whatever else is due comes before the others.

    Raises DatabaseUnavailable.
    """
    named = {"forgotten": forgotten, "passes": erasure.passes}
    await _execute(pool, erasure, _PROGRESS, named)


async def end_pass(pool: Pool, erasure: Erasure) -> None:
    """After the first pass another is due in a minute; after that one the erasure is done.

    A later piece has one pass: a run that a paused worker may go on with has events in the newest piece.
    Raises DatabaseUnavailable.
    """
    if erasure.passes == 0 and erasure.piece == 0:
        await _execute(pool, erasure, _AGAIN, {"seconds": LATE_SECONDS})
    else:
        await _execute(pool, erasure, _END, {})


async def _execute(pool: Pool, erasure: Erasure, statement: sql.SQL, named: Mapping[str, object]) -> None:
    table, place = ("erasures", "") if erasure.piece == 0 else ("erasure_pieces", " AND piece = %(piece)s")
    query = statement.format(table=sql.Identifier(table), piece=sql.SQL(place))
    async with connection(pool) as conn:
        await conn.execute(query, {"id": erasure.conversation_id, "piece": erasure.piece, **named})


# An earlier release works off `erasures` alone, by conversation: so later pieces are in a table of their own.
_DUE = """
SELECT conversation_id, position, positions, trace_ids, passes, forgotten, piece FROM (
    (SELECT *, 0 AS piece FROM erasures WHERE due_at <= clock_timestamp() ORDER BY due_at LIMIT %(limit)s)
     UNION ALL
    (SELECT conversation_id, position, positions, trace_ids, passes, due_at, forgotten, piece
       FROM erasure_pieces WHERE due_at <= clock_timestamp() ORDER BY due_at LIMIT %(limit)s)
) AS due ORDER BY due_at LIMIT %(limit)s
"""

_PROGRESS = sql.SQL("""
UPDATE {table} SET forgotten = %(forgotten)s, due_at = clock_timestamp()
 WHERE conversation_id = %(id)s AND passes = %(passes)s{piece}
""")

_AGAIN = sql.SQL("""
UPDATE {table}
   SET passes = passes + 1, forgotten = 0, due_at = clock_timestamp() + make_interval(secs => %(seconds)s)
 WHERE conversation_id = %(id)s{piece}
""")

_END = sql.SQL("DELETE FROM {table} WHERE conversation_id = %(id)s{piece}")

_BY_TRACE = (
    "DELETE FROM run_leases WHERE trace_id = ANY(%s)",
    "DELETE FROM run_requests WHERE trace_id = ANY(%s)",
    "DELETE FROM waiting_line WHERE trace_id = ANY(%s)",
)

_BY_CONVERSATION = ("DELETE FROM parked_events WHERE conversation_id = %s",)
