"""Store what-if questions of the console and their answers, one row for each recorded run.

The rows of an erased conversation are not found, and are deleted by the projector (`erasures`). A page that
shows a what-if claims a row, asks an orchestrator (`orchestrator.rpc.answer_what_if`), and stores the answer;
a claim without an answer expires.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from agentchat.runtime.postgres import Pool, acquire_connection

KEPT_DAYS = 30
CLAIM_SECONDS = 150
"""How long a claimed run may stay without a result: longer than one answer takes."""

TABLES = """
CREATE TABLE what_if_runs (
    what_if_id text NOT NULL,
    place integer NOT NULL,
    conversation_id text NOT NULL,
    trace_id text NOT NULL,
    account_id text NOT NULL,
    agent_id text NOT NULL,
    agent_version integer NOT NULL,
    model text,
    system_prompt text,
    actor text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_at timestamptz,
    result json,
    PRIMARY KEY (what_if_id, place)
);
CREATE INDEX what_if_runs_conversation_idx ON what_if_runs (conversation_id);
CREATE INDEX what_if_runs_created_idx ON what_if_runs (created_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON what_if_runs TO agentchat_service;
"""


class WhatIfQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The agent version that answers again.

    `model` and `system_prompt` replace its own if given.
    """

    account_id: str
    agent_id: str
    agent_version: int
    model: str | None
    system_prompt: str | None
    actor: str


class WhatIfRow(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded run of a what-if. `result` is JSON of `ComparedRun`, None until it is answered."""

    what_if_id: str
    place: int
    conversation_id: str
    trace_id: str
    account_id: str
    agent_id: str
    agent_version: int
    model: str | None
    system_prompt: str | None
    actor: str
    created_at: datetime
    result: str | None


class WhatIfSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A what-if in a list."""

    what_if_id: str
    agent_id: str
    agent_version: int
    actor: str
    created_at: datetime
    runs: int
    answered: int


async def add(pool: Pool, what_if_id: str, question: WhatIfQuestion, runs: Sequence[tuple[str, str]]) -> None:
    """Add a what-if of these runs (conversation and trace ids); delete those older than KEPT_DAYS.

    Raises DatabaseUnavailable.
    """
    fields = msgspec.structs.asdict(question) | {"id": what_if_id}
    rows = [
        fields | {"place": place, "conversation": conversation_id, "trace": trace_id}
        for place, (conversation_id, trace_id) in enumerate(runs)
    ]
    async with acquire_connection(pool) as conn, conn.transaction():
        await conn.execute(_DELETE_OLD, [KEPT_DAYS])
        async with conn.cursor() as cursor:
            await cursor.executemany(_INSERT, rows)


async def find(pool: Pool, what_if_id: str) -> list[WhatIfRow]:
    """Return the rows of a what-if in the order of its runs; none if it is unknown or all were erased."""
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_FIND, [what_if_id])).fetchall()
    return [_build_row(row) for row in rows]


async def list_newest(pool: Pool, limit: int) -> list[WhatIfSummary]:
    """Return the newest what-ifs. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_NEWEST, [limit])).fetchall()
    fields = WhatIfSummary.__struct_fields__
    return [WhatIfSummary(**dict(zip(fields, row, strict=True))) for row in rows]


async def claim(pool: Pool, what_if_id: str) -> WhatIfRow | None:
    """Claim the next run that is not being answered. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_CLAIM, {"id": what_if_id, "seconds": CLAIM_SECONDS})).fetchone()
    return None if row is None else _build_row(row)


async def store(pool: Pool, row: WhatIfRow, result: bytes) -> None:
    """Store the answer of a claimed run; a row that was deleted meanwhile stays deleted."""
    async with acquire_connection(pool) as conn:
        await conn.execute(_STORE, [result.decode(), row.what_if_id, row.place])


async def release(pool: Pool, rows: Sequence[WhatIfRow]) -> None:
    """Give up claims, so that the next page can claim these runs at once."""
    async with acquire_connection(pool) as conn:
        for row in rows:
            await conn.execute(_RELEASE, [row.what_if_id, row.place])


async def drop(pool: Pool, row: WhatIfRow) -> None:
    """Delete a run that cannot be answered: its conversation was erased or cannot be read."""
    async with acquire_connection(pool) as conn:
        await conn.execute(_DROP, [row.what_if_id, row.place])


async def drop_unanswered(pool: Pool, what_if_id: str) -> None:
    """Delete the runs without an answer, which stops the what-if."""
    async with acquire_connection(pool) as conn:
        await conn.execute(_DROP_UNANSWERED, [what_if_id])


def _build_row(row: tuple[Any, ...]) -> WhatIfRow:
    return WhatIfRow(**dict(zip(WhatIfRow.__struct_fields__, row, strict=True)))


_COLUMNS = """what_if_id, place, conversation_id, trace_id, account_id, agent_id, agent_version, model,
       system_prompt, actor, created_at, result::text"""

_INSERT = """
INSERT INTO what_if_runs (what_if_id, place, conversation_id, trace_id, account_id, agent_id, agent_version,
                          model, system_prompt, actor)
VALUES (%(id)s, %(place)s, %(conversation)s, %(trace)s, %(account_id)s, %(agent_id)s, %(agent_version)s,
        %(model)s, %(system_prompt)s, %(actor)s)
"""

_NOT_ERASED = """NOT EXISTS (
       SELECT FROM conversation_events
        WHERE originator_id = conversation_id AND topic = 'conversation_erased.v1')"""

_FIND = f"""
SELECT {_COLUMNS} FROM what_if_runs
 WHERE what_if_id = %s AND {_NOT_ERASED}
 ORDER BY place
"""  # noqa: S608 - a constant

_NEWEST = f"""
SELECT what_if_id, min(agent_id), min(agent_version), min(actor), min(created_at), count(*), count(result)
  FROM what_if_runs WHERE {_NOT_ERASED}
 GROUP BY what_if_id ORDER BY min(created_at) DESC LIMIT %s
"""  # noqa: S608 - a constant

_CLAIM = f"""
UPDATE what_if_runs SET claimed_at = clock_timestamp()
 WHERE (what_if_id, place) = (
    SELECT what_if_id, place FROM what_if_runs
     WHERE what_if_id = %(id)s AND result IS NULL AND {_NOT_ERASED}
       AND (claimed_at IS NULL OR claimed_at < clock_timestamp() - make_interval(secs => %(seconds)s))
     ORDER BY place LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING {_COLUMNS}
"""  # noqa: S608 - a constant

_STORE = "UPDATE what_if_runs SET result = %s WHERE what_if_id = %s AND place = %s"
_RELEASE = "UPDATE what_if_runs SET claimed_at = NULL WHERE what_if_id = %s AND place = %s AND result IS NULL"
_DROP = "DELETE FROM what_if_runs WHERE what_if_id = %s AND place = %s"
_DROP_UNANSWERED = "DELETE FROM what_if_runs WHERE what_if_id = %s AND result IS NULL"
_DELETE_OLD = "DELETE FROM what_if_runs WHERE created_at < clock_timestamp() - make_interval(days => %s)"
