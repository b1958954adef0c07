"""The runs that are to be judged: found in the log, leased to one process at a time, and their scores stored.

Scores are paid for and cannot be made again out of the log, so these tables are no read models: no rebuild
touches them. They go with their conversation (`erasures.forget_rows`).
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime

import msgspec

from contracts import wire
from runtime.postgres import Connection, Pool, connection

STEP = """
CREATE TABLE judging_position (position bigint NOT NULL);
INSERT INTO judging_position SELECT coalesce(max(notification_id), 0) FROM conversation_events;
CREATE TABLE judged_runs (
    trace_id text PRIMARY KEY,
    conversation_id text NOT NULL,
    account_id text NOT NULL,
    agent_id text NOT NULL,
    agent_version integer NOT NULL,
    ended_at text COLLATE "C" NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    due_at timestamptz DEFAULT clock_timestamp(),
    worked_at timestamptz
);
CREATE INDEX judged_runs_due_idx ON judged_runs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX judged_runs_conversation_idx ON judged_runs (conversation_id);
CREATE INDEX judged_runs_agent_idx ON judged_runs (agent_id, worked_at);
CREATE TABLE run_scores (
    trace_id text NOT NULL REFERENCES judged_runs ON DELETE CASCADE,
    evaluator text NOT NULL,
    agent_id text NOT NULL,
    agent_version integer NOT NULL,
    value double precision,
    passed boolean,
    reason text NOT NULL,
    unjudged text,
    judged_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (trace_id, evaluator),
    CHECK ((value IS NULL) = (unjudged IS NOT NULL) AND (value IS NULL) = (passed IS NULL))
);
CREATE INDEX run_scores_agent_idx ON run_scores (agent_id, judged_at);
GRANT SELECT, UPDATE ON judging_position TO agentchat_service;
GRANT SELECT, INSERT, UPDATE, DELETE ON judged_runs, run_scores TO agentchat_service;
"""
"""After 0.9.0. `due_at` is when a run may be judged, or until when it is leased; NULL once it is judged."""

EVENTS_AT_ONCE = 20_000
"""So many positions of the log are looked through in one transaction."""

MOST_HOURS = 24
"""A run that ended longer ago is not judged: it was imported, or nothing has judged for so long."""


class LeasedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that this process alone judges until `lease`, for the time of number `tries`.

    `has` are the evaluators that it has a score of. `spent` is what its agent's judges have used today.
    """

    trace_id: str
    conversation_id: str
    account_id: str
    agent_id: str
    agent_version: int
    tries: int
    lease: datetime
    has: list[str]
    spent: int


class StoredScore(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluator said of a run. Without a verdict it has no `value`, and `unjudged` says why."""

    evaluator: str
    value: float | None = None
    passed: bool | None = None
    reason: str = ""
    unjudged: str | None = None


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a leased run; `again` is in how many seconds it is due again, None: it is done."""

    run: LeasedRun
    scores: Sequence[StoredScore]
    tokens: int = 0
    again: float | None = None


def is_in_share(share: float, trace_id: str) -> bool:
    """Always the same for a run, and one that is in a share is in every larger one."""
    digest = hashlib.sha256(f"judged {trace_id}".encode()).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


async def is_any_judged(conn: Connection) -> bool:
    """Whether a version of an agent says that runs are judged."""
    return await (await conn.execute(_ANY)).fetchone() == (True,)


async def take_ended(pool: Pool) -> bool:
    """Look through the next stretch of the log for runs that are to be judged; whether there is more.

    Of several processes one does so at a time. Raises DatabaseUnavailable.
    """
    async with connection(pool, seconds=10.0) as conn, conn.transaction():
        place = await (await conn.execute(_PLACE)).fetchone()
        if place is None:
            return False
        after, reached = place
        if reached is None or reached <= after:
            return False
        until = min(reached, after + EVENTS_AT_ONCE)
        named = {"after": after, "until": until, "hours": MOST_HOURS}
        found = await (await conn.execute(_ENDED, named)).fetchall()
        if chosen := [row[:-1] for row in found if is_in_share(row[-1], row[0])]:
            await conn.cursor().executemany(_INSERT, chosen)
        await conn.execute("UPDATE judging_position SET position = %s", [until])
        return bool(until < reached)


async def lease_runs(pool: Pool, limit: int, seconds: float) -> list[LeasedRun]:
    """Up to `limit` runs that are due, those first that are so for longest. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        rows = await (await conn.execute(_LEASE, {"limit": limit, "seconds": seconds})).fetchall()
    return [LeasedRun(**dict(zip(LeasedRun.__struct_fields__, row, strict=True))) for row in rows]


async def store(pool: Pool, judgement: Judgement) -> bool:
    """False where the run is erased, or another process has the lease: then nothing is stored.

    A score that is there stays. Raises DatabaseUnavailable.
    """
    run = judgement.run
    named = {
        "trace": run.trace_id,
        "lease": run.lease,
        "tokens": judgement.tokens,
        "again": judgement.again,
        "scores": wire.encode([msgspec.structs.asdict(each) for each in judgement.scores]).decode(),
    }
    async with connection(pool) as conn:
        return await (await conn.execute(_STORE, named)).fetchone() == (True,)


async def forget_run(pool: Pool, run: LeasedRun) -> None:
    """It is not to be judged: its conversation or its agent is gone. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        await conn.execute("DELETE FROM judged_runs WHERE trace_id = %s", [run.trace_id])


async def waiting(conn: Connection) -> tuple[int, float]:
    """How many runs are to be judged, and for how many seconds the oldest has been due."""
    row = await (await conn.execute(_WAITING)).fetchone()
    assert row is not None, "an aggregate gives one row"
    return int(row[0]), float(row[1])


_ANY = "SELECT EXISTS (SELECT FROM agent_versions WHERE (config ->> 'judging') IS NOT NULL)"

# What the read model of runs has everything of.
_PLACE = """
SELECT position, (SELECT min(position) FROM read_model_positions WHERE name = 'runs')
  FROM judging_position FOR UPDATE OF judging_position SKIP LOCKED
"""

_ENDED = """
SELECT r.trace_id, r.conversation_id, account_id, r.agent_id, agent_version, ended_at,
       (config -> 'judging' ->> 'share')::float8
  FROM conversation_events e
  JOIN runs r ON r.trace_id = substring(encode(substr(e.state, 1, 256), 'escape') FROM '"trace_id":"([^"]+)"')
  JOIN agent_versions v ON v.agent_id = r.agent_id AND v.version = agent_version
 WHERE notification_id > %(after)s AND notification_id <= %(until)s
   AND topic IN ('run_completed.v1', 'run_failed.v1') AND r.conversation_id = originator_id
   AND version > 0 AND (config ->> 'judging') IS NOT NULL
   AND ended_at::timestamptz > now() - make_interval(hours => %(hours)s)
"""

_INSERT = """
INSERT INTO judged_runs (trace_id, conversation_id, account_id, agent_id, agent_version, ended_at)
VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (trace_id) DO NOTHING
"""

_LEASE = """
WITH due AS (
    SELECT trace_id FROM judged_runs WHERE due_at <= now() ORDER BY due_at LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
)
UPDATE judged_runs j
   SET due_at = clock_timestamp() + make_interval(secs => %(seconds)s), tries = tries + 1
  FROM due WHERE j.trace_id = due.trace_id
RETURNING j.trace_id, conversation_id, account_id, agent_id, agent_version, tries, due_at,
          (SELECT coalesce(array_agg(evaluator), '{}') FROM run_scores s WHERE s.trace_id = j.trace_id),
          (SELECT coalesce(sum(tokens), 0)::bigint FROM judged_runs o
            WHERE o.agent_id = j.agent_id
              AND worked_at >= date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')
"""

_STORE = """
WITH run AS (
    UPDATE judged_runs
       SET due_at = clock_timestamp() + make_interval(secs => %(again)s::float8),
           tokens = tokens + %(tokens)s, worked_at = clock_timestamp()
     WHERE trace_id = %(trace)s AND due_at = %(lease)s RETURNING trace_id, agent_id, agent_version
), scores AS (
    INSERT INTO run_scores (trace_id, agent_id, agent_version, evaluator, value, passed, reason, unjudged)
    SELECT run.*, s.* FROM run, jsonb_to_recordset(%(scores)s)
           AS s (evaluator text, value float8, passed boolean, reason text, unjudged text)
    ON CONFLICT (trace_id, evaluator) DO NOTHING
)
SELECT EXISTS (SELECT FROM run)
"""

_WAITING = """
SELECT count(*), coalesce(extract(epoch FROM now() - min(due_at)), 0)::float8
  FROM judged_runs WHERE due_at <= now()
"""
