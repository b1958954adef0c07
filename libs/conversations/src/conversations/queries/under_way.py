"""What is under way in all accounts, and how far the read models are."""

import msgspec

from conversations.database import LEADER_LOCK
from conversations.projections.read_models import PROJECTIONS
from runtime.postgres import Pool, connection


class UnderWay(msgspec.Struct, frozen=True, kw_only=True):
    """`open_runs` have begun and have no end, the oldest for so many seconds.

    `approvals` are tool calls that wait for a person's decision. `waiting_messages` wait until their
    conversation is free.
    """

    open_runs: int
    oldest_run_seconds: float
    approvals: int
    waiting_messages: int


class ReadModel(msgspec.Struct, frozen=True, kw_only=True):
    """A read model has taken the log up to `position`, but for `parked` events that it could not take."""

    name: str
    position: int
    parked: int


class OpenRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has begun, `seconds` ago, and has no end.

    `tool` is a call that has not returned yet, `waits_for` a tool that a person has to allow. `model` is None
    before its first attempt.
    """

    trace_id: str
    conversation_id: str
    account_id: str
    agent_id: str
    seconds: float
    model: str | None
    attempts: int
    rounds: int
    tool: str | None
    waits_for: str | None


async def open_runs(
    pool: Pool, *, account_id: str | None = None, agent_id: str | None = None, limit: int
) -> tuple[int, list[OpenRun]]:
    """How many runs are open, of all or of an account or an agent, and the newest of them.

    Raises DatabaseUnavailable.
    """
    named = {"account": account_id, "agent": agent_id, "limit": limit}
    async with connection(pool) as conn:
        rows = await (await conn.execute(_OPEN_RUNS, named)).fetchall()
    found = [OpenRun(**dict(zip(OpenRun.__struct_fields__, row, strict=False))) for row in rows]
    return (rows[0][-1] if rows else 0), found


async def under_way(pool: Pool) -> UnderWay:
    """Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        row = await (await conn.execute(_UNDER_WAY)).fetchone()
    assert row is not None, "SELECT without FROM gives one row"
    return UnderWay(**dict(zip(UnderWay.__struct_fields__, row, strict=True)))


async def read_models(pool: Pool) -> list[ReadModel]:
    """Those of this program, by name. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        rows = await (await conn.execute(_READ_MODELS, [[each.name for each in PROJECTIONS]])).fetchall()
    return [ReadModel(name=name, position=position, parked=parked) for name, position, parked in rows]


async def leading_projector(pool: Pool) -> str | None:
    """Return the name of the projector that leads, None if none does. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        row = await (await conn.execute(_LEADER, [LEADER_LOCK >> 32, LEADER_LOCK & 0xFFFFFFFF])).fetchone()
    return row[0] if row else None


_LEADER = """
SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
 WHERE locktype = 'advisory' AND granted AND objsubid = 1
   AND classid::bigint = %s AND objid::bigint = %s
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

_UNDER_WAY = """
SELECT (SELECT count(*) FROM runs WHERE ended_at IS NULL),
       coalesce((SELECT extract(epoch FROM clock_timestamp() - min(requested_at)::timestamptz)
                   FROM runs WHERE ended_at IS NULL), 0)::float8,
       (SELECT count(*) FROM approvals WHERE status = 'pending'),
       (SELECT count(*) FROM waiting_line WHERE place > 0 AND expires_at > clock_timestamp())
"""

_READ_MODELS = """
SELECT name, position, (SELECT count(*) FROM parked_events WHERE projection = name)
  FROM projection_positions WHERE name = ANY(%s) ORDER BY name
"""

# What depends on each run is looked up for those of the page alone.
_OPEN_RUNS = """
WITH newest AS (
     SELECT *, count(*) OVER () AS total
       FROM runs
      WHERE ended_at IS NULL AND (%(account)s::text IS NULL OR account_id = %(account)s)
        AND (%(agent)s::text IS NULL OR agent_id = %(agent)s)
      ORDER BY requested_at DESC, trace_id LIMIT %(limit)s)
SELECT trace_id, conversation_id, account_id, agent_id,
       extract(epoch FROM clock_timestamp() - requested_at::timestamptz)::float8, model, attempts, rounds,
       (SELECT name FROM tools
         WHERE tools.trace_id = newest.trace_id AND is_error IS NULL ORDER BY called_at DESC LIMIT 1),
       (SELECT name FROM approvals
         WHERE approvals.trace_id = newest.trace_id AND status = 'pending' LIMIT 1),
       total
  FROM newest ORDER BY requested_at DESC, trace_id
"""
