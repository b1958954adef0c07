"""Erase a conversation: hide its events at once, then delete them in chunks.

Appending ConversationErased is the erasure: from then on the view `readable_conversation_events` has no other
event of the conversation, and `append_events` stores none, so a worker that was paused cannot bring content
back. The read model `erasures` lists what is left to remove. For each, `projector.erasure_step` removes the
newest events that are left: first their copies in NATS, then the rows. After an interruption it starts over:
the rows that are left are the remaining work. A second pass, a minute later, removes what a paused worker
sent meanwhile. The tombstone itself is deleted after 35 days: it outlives the copy of each event in EVENTS,
and so any redelivery, which may come for 30 days.

Appended by `orchestrator.rpc.erase_conversation`.
"""

from collections.abc import Sequence

import msgspec

from agentchat.contracts import events
from agentchat.conversations.postgres_sessions import load_statements
from agentchat.conversations.projections.projection import LoggedFact, Projection, Statement, insert, put
from agentchat.runtime.postgres import Pool, acquire_connection

LATE_SECONDS = 60
"""Seconds from the first pass to the second."""

TOMBSTONES_AT_ONCE = 500

TABLES = """
CREATE TABLE erasures (
    conversation_id text PRIMARY KEY,
    position bigint NOT NULL,
    trace_ids text[] NOT NULL DEFAULT '{}',
    passes integer NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX erasures_due_idx ON erasures (due_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON erasures TO agentchat_service;

CREATE VIEW readable_conversation_events AS
SELECT * FROM conversation_events AS event
 WHERE topic = 'conversation_erased.v1'
    OR (SELECT true FROM conversation_events AS erased
         WHERE erased.originator_id = event.originator_id AND erased.topic = 'conversation_erased.v1'
         LIMIT 1) IS NULL;
GRANT SELECT ON readable_conversation_events TO agentchat_service;

-- The traces of the runs that are begun and have no end, for tool-runners, which may not read the log.
CREATE VIEW open_run_traces AS
SELECT trace_id FROM readable_conversation_events AS started
 WHERE topic = 'run_started.v1' AND NOT EXISTS (
       SELECT FROM conversation_events AS ended
        WHERE ended.trace_id = started.trace_id
          AND ended.topic IN ('run_completed.v1', 'run_failed.v1', 'run_cancelled.v1'));
GRANT SELECT ON open_run_traces TO agentchat_service;
"""

_SQL = load_statements(__file__)


class Erasure(msgspec.Struct, frozen=True):
    """An erased conversation with something left to remove.

    `trace_ids` are those of its newest runs.
    """

    conversation_id: str
    trace_ids: list[str]
    passes: int


class ErasureChunk(msgspec.Struct, frozen=True, kw_only=True):
    """The newest events that are left of an erased conversation, and the ids of the files that they name."""

    erasure: Erasure
    positions: list[int]
    trace_ids: list[str]
    file_ids: list[str]
    is_last: bool


class UnfinishedErasure(msgspec.Struct, frozen=True, kw_only=True):
    """An erased conversation of which the log still has rows, which no reader sees."""

    conversation_id: str
    rows_left: int


async def list_due_erasures(pool: Pool, fed: int, *, limit: int) -> list[Erasure]:
    """Return the oldest due erasures that EVENTS (`fed`) and the ledger of runs have reached.

    Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_SQL["due"], {"fed": fed, "limit": limit})).fetchall()
    return [Erasure(*row) for row in rows]


async def load_chunk(pool: Pool, erasure: Erasure, limit: int) -> ErasureChunk:
    """Load up to `limit` of the newest events that are left. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_SQL["newest"], [erasure.conversation_id, limit])).fetchall()
    found = {trace_id for _, trace_id, _ in rows if trace_id is not None}
    return ErasureChunk(
        erasure=erasure,
        positions=sorted(position for position, _, _ in rows),
        trace_ids=sorted(found) or erasure.trace_ids,
        file_ids=sorted({file_id for *_, file_ids in rows for file_id in file_ids}),
        is_last=len(rows) < limit,
    )


async def finish_chunk(pool: Pool, chunk: ErasureChunk) -> None:
    """Delete the rows of a chunk, and those of its conversation in other tables.

    The idempotency keys stay, so that none of its requests runs again. Raises DatabaseUnavailable.
    """
    erasure = chunk.erasure
    named = {
        "id": erasure.conversation_id,
        "traces": chunk.trace_ids,
        "passes": erasure.passes,
        "ended": int(chunk.is_last),
        "seconds": LATE_SECONDS if chunk.is_last else 0,
        "positions": chunk.positions,
    }
    step = "end" if chunk.is_last and erasure.passes else "progress"
    async with acquire_connection(pool) as conn, conn.transaction():
        for name in ("leases", "requests", "waiters", "parked", "what_if", "rows"):
            await conn.execute(_SQL[name], named)
        await conn.execute(_SQL[step], named)


async def list_unfinished_erasures(pool: Pool, *, limit: int) -> list[UnfinishedErasure]:
    """Return the erasures with rows left, the most first. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_SQL["unfinished"], [limit])).fetchall()
    return [UnfinishedErasure(conversation_id=id_, rows_left=rows_left) for id_, rows_left in rows]


async def list_unerased_conversations(pool: Pool, account_id: str, *, limit: int) -> list[str]:
    """Return ids of an account's conversations that are not erased yet. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_SQL["unerased"], [account_id, limit])).fetchall()
    return [conversation_id for (conversation_id,) in rows]


async def delete_old_tombstones(pool: Pool, *, most: int = TOMBSTONES_AT_ONCE) -> int:
    """Delete tombstones that are weeks old and return how many.

    Fewer than `most` means none are left. The newest row of the log stays: it marks the end of the log.
    Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        return (await conn.execute(_SQL["old_tombstones"], [most])).rowcount


def _build_statements(facts: Sequence[LoggedFact]) -> list[Statement]:
    erased = [
        {"conversation_id": fact.conversation_id, "position": fact.position}
        for fact in facts
        if isinstance(fact.event, events.ConversationErased)
    ]
    return put(_INSERT, erased)


PROJECTION = Projection(
    name="erasures",
    tables=TABLES,
    takes=frozenset({events.ConversationErased}),
    keeps_erased=True,
    changes=_build_statements,
)
"""Followed with the read models, but neither rebuilt nor verified.

Its rows are deleted when they are done.
"""

_INSERT = insert("erasures", "conversation_id text, position bigint", "DO NOTHING")
