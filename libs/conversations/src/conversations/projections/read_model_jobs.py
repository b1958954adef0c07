"""Jobs: a rebuild or a verification that somebody has requested, and a projector carries out.

A job is a row. One at a time is under way, which an index sees to. The projector that leads claims it, notes
its progress, and ends it. One that dies leaves it as it is, and the next leader claims it again, under
another attempt: what the one before still notes is refused. Who requests, lists and stops jobs only reads and
writes rows. The last KEPT jobs stay.

A row holds keys of rows that differ, and never their values: those may be texts of a conversation, which
whoever may see a job may not see, and which would outlive its erasure.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from psycopg.types.json import Jsonb

from runtime.postgres import Connection, Pool, connection

JobKind = Literal["rebuild", "verify"]
JobState = Literal["waiting", "running", "completed", "failed", "stopped"]
Outcome = Literal["swapped", "equal", "differs", "other_version"]

KEPT = 50
SILENT_SECONDS = 10.0
"""A projector that has noted nothing for so long does not work on its job any more."""

STEP = """
CREATE TABLE read_model_jobs (
    job_id text PRIMARY KEY,
    kind text NOT NULL,
    read_models text[] NOT NULL,
    state text NOT NULL DEFAULT 'waiting',
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stopped_by text,
    projector text,
    attempts integer NOT NULL DEFAULT 0,
    started_at timestamptz,
    seen_at timestamptz,
    ended_at timestamptz,
    position bigint NOT NULL DEFAULT 0,
    target bigint NOT NULL DEFAULT 0,
    events_per_second double precision,
    reason text,
    results jsonb NOT NULL DEFAULT '[]'
);
CREATE UNIQUE INDEX read_model_jobs_one_idx ON read_model_jobs ((ended_at IS NULL)) WHERE ended_at IS NULL;
GRANT SELECT, INSERT, UPDATE, DELETE ON read_model_jobs TO agentchat_service;
"""


class DifferentRow(msgspec.Struct, frozen=True, kw_only=True):
    """The first row that differs, by its key, and the column; None where one side lacks the row.

    With an empty key it is the column itself that differs.
    """

    key: dict[str, str]
    column: str | None


class ReadModelResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one read model, which had all up to `position` then.

    `rows` are as they should be, up to the first that is not. `parked` events could not be applied, to the
    live table or to the one built now. `other_version`: the live table is not of the projector's version.
    """

    name: str
    outcome: Outcome
    position: int
    rows: int | None = None
    parked: int = 0
    difference: DifferentRow | None = None


class ReadModelJob(msgspec.Struct, frozen=True, kw_only=True):
    """A rebuild or a verification of read models.

    `position` of `target` events are done, `events_per_second` since this attempt began, which its projector
    noted `seconds_ago`. `reason` says why it waits or has failed. `stopped_by` has requested its end, which
    comes within a second or so. A rebuild that was stopped or has failed may have swapped some read models,
    which `results` has; the others are as before.
    """

    id: str
    kind: JobKind
    read_models: tuple[str, ...]
    state: JobState
    requested_by: str
    requested_at: datetime
    stopped_by: str | None
    projector: str | None
    attempts: int
    started_at: datetime | None
    ended_at: datetime | None
    seconds_ago: float | None
    position: int
    target: int
    events_per_second: float | None
    seconds_left: float | None
    reason: str | None
    results: tuple[ReadModelResult, ...]


class Progress(msgspec.Struct, kw_only=True):
    """What a projector notes of the job that it works on."""

    position: int = 0
    target: int = 0
    events_per_second: float | None = None
    reason: str | None = None
    results: list[ReadModelResult] = []


async def known_names(conn: Connection) -> list[str]:
    """The read models of the database, by name."""
    return [name for (name,) in await (await conn.execute(_NAMES)).fetchall()]


async def add(
    conn: Connection, job_id: str, kind: JobKind, read_models: Sequence[str], requested_by: str
) -> ReadModelJob | None:
    """A new job, which waits; None where another is under way. Within an open transaction."""
    cursor = await conn.execute(_ADD, [job_id, kind, list(read_models), requested_by])
    row = await cursor.fetchone()
    if row is None:
        return None
    await conn.execute(_FORGET, [KEPT])
    return _job(row)


async def under_way(conn: Connection) -> ReadModelJob | None:
    """The one that waits or runs."""
    row = await (await conn.execute(_UNDER_WAY)).fetchone()
    return None if row is None else _job(row)


async def find(conn: Connection, job_id: str) -> ReadModelJob | None:
    row = await (await conn.execute(_FIND, [job_id])).fetchone()
    return None if row is None else _job(row)


async def newest(conn: Connection, before: str | None, limit: int) -> list[ReadModelJob]:
    """Those before a job, or the last ones, the newest first."""
    rows = await (await conn.execute(_NEWEST, {"before": before, "limit": limit})).fetchall()
    return [_job(row) for row in rows]


async def request_stop(conn: Connection, job_id: str, by: str) -> ReadModelJob | None:
    """End it: at once where no projector works on it, else within a second; None for one that has ended."""
    row = await (await conn.execute(_STOP, {"id": job_id, "by": by, "silent": SILENT_SECONDS})).fetchone()
    return None if row is None else _job(row)


class ClaimedJob(msgspec.Struct, frozen=True):
    """A job in the hands of one projector, until another has claimed it."""

    job: ReadModelJob
    pool: Pool

    async def note(self, progress: Progress) -> bool:
        """Whether to go on: not where it is to stop, or is another's. Raises DatabaseUnavailable."""
        noted = msgspec.structs.asdict(progress) | {"results": _json(progress.results)}
        async with connection(self.pool) as conn:
            row = await (await conn.execute(_NOTE, noted | self._named)).fetchone()
        return row == (None,)

    async def end(self, state: JobState, progress: Progress) -> None:
        """Nothing where it is another's. Raises DatabaseUnavailable."""
        ended = msgspec.structs.asdict(progress) | {"results": _json(progress.results), "state": state}
        async with connection(self.pool) as conn:
            await conn.execute(_END, ended | self._named)

    @property
    def _named(self) -> dict[str, Any]:
        return {"id": self.job.id, "attempt": self.job.attempts}


async def claim(pool: Pool, projector: str) -> ClaimedJob | None:
    """Take the job that is under way, as the one projector that leads; None where there is none.

    Raises DatabaseUnavailable.
    """
    async with connection(pool) as conn:
        row = await (await conn.execute(_CLAIM, [projector])).fetchone()
    return None if row is None else ClaimedJob(_job(row), pool)


def _json(results: Sequence[ReadModelResult]) -> Jsonb:
    return Jsonb(msgspec.to_builtins(results))


def _job(row: tuple[Any, ...]) -> ReadModelJob:
    named = dict(zip(_FIELDS, row, strict=True))
    rate, left = named["events_per_second"], named["target"] - named["position"]
    running = named["state"] == "running" and rate
    return msgspec.convert(named | {"seconds_left": max(0, left) / rate if running else None}, ReadModelJob)


_FIELDS = [each for each in ReadModelJob.__struct_fields__ if each != "seconds_left"]
_EXPRESSIONS = {"id": "job_id", "seconds_ago": "extract(epoch FROM clock_timestamp() - seen_at)::float8"}
_COLUMNS = ", ".join(_EXPRESSIONS.get(each, each) for each in _FIELDS)

_NAMES = "SELECT name FROM read_models ORDER BY name"

_ADD = f"""
INSERT INTO read_model_jobs (job_id, kind, read_models, requested_by) VALUES (%s, %s, %s, %s)
ON CONFLICT DO NOTHING RETURNING {_COLUMNS}
"""  # noqa: S608 - names of ours

_FORGET = """
DELETE FROM read_model_jobs
 WHERE job_id IN (SELECT job_id FROM read_model_jobs ORDER BY job_id DESC OFFSET %s) AND ended_at IS NOT NULL
"""

_UNDER_WAY = f"SELECT {_COLUMNS} FROM read_model_jobs WHERE ended_at IS NULL"  # noqa: S608 - as above

_FIND = f"SELECT {_COLUMNS} FROM read_model_jobs WHERE job_id = %s"  # noqa: S608 - as above

_NEWEST = f"""
SELECT {_COLUMNS} FROM read_model_jobs
 WHERE %(before)s::text IS NULL OR job_id < %(before)s ORDER BY job_id DESC LIMIT %(limit)s
"""  # noqa: S608 - as above

_STOP = f"""
UPDATE read_model_jobs AS job
   SET stopped_by = coalesce(stopped_by, %(by)s), state = CASE WHEN idle THEN 'stopped' ELSE state END,
       ended_at = CASE WHEN idle THEN clock_timestamp() END
  FROM (SELECT job_id AS own, state = 'waiting'
               OR seen_at < clock_timestamp() - make_interval(secs => %(silent)s) AS idle
          FROM read_model_jobs WHERE job_id = %(id)s FOR UPDATE) AS now
 WHERE job_id = own AND ended_at IS NULL
RETURNING {_COLUMNS}
"""  # noqa: S608 - as above

_CLAIM = f"""
UPDATE read_model_jobs
   SET state = 'running', projector = %s, attempts = attempts + 1, reason = NULL, events_per_second = NULL,
       started_at = coalesce(started_at, clock_timestamp()), seen_at = clock_timestamp()
 WHERE ended_at IS NULL RETURNING {_COLUMNS}
"""  # noqa: S608 - as above

_NOTE = """
UPDATE read_model_jobs
   SET seen_at = clock_timestamp(), position = %(position)s, target = %(target)s,
       events_per_second = %(events_per_second)s, reason = %(reason)s, results = %(results)s
 WHERE job_id = %(id)s AND attempts = %(attempt)s AND ended_at IS NULL
RETURNING stopped_by
"""

_END = """
UPDATE read_model_jobs
   SET state = %(state)s, ended_at = clock_timestamp(), position = %(position)s, target = %(target)s,
       events_per_second = %(events_per_second)s, reason = %(reason)s, results = %(results)s
 WHERE job_id = %(id)s AND attempts = %(attempt)s AND ended_at IS NULL
"""
