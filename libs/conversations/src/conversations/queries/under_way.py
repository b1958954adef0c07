"""What is under way in all accounts, and how far the read models are."""

import msgspec

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


_UNDER_WAY = """
SELECT (SELECT count(*) FROM open_runs),
       coalesce((SELECT extract(epoch FROM clock_timestamp() - min(started_at)) FROM open_runs), 0)::float8,
       (SELECT count(*) FROM approvals WHERE status = 'pending'),
       (SELECT count(*) FROM waiting_line WHERE place > 0 AND expires_at > clock_timestamp())
"""

_READ_MODELS = """
SELECT name, p.position, (SELECT count(*) FROM parked_events WHERE projection = name)
  FROM projection_positions p WHERE name = ANY(%s) ORDER BY name
"""
