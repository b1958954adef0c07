"""How far EVENTS was fed, for the one case in which EVENTS itself cannot say: when it has become empty."""

from conversations.database import using
from runtime.postgres import Pool

_NAME = "events_feed"


async def last_fed(pool: Pool) -> int:
    """The log position remembered last, 0 if there is none. Raises StoreUnavailable."""
    async with using(pool) as conn:
        row = await (await conn.execute(_GET, [_NAME])).fetchone()
    return int(row[0]) if row else 0


async def remember_fed(pool: Pool, position: int) -> None:
    """Everything up to `position` is in EVENTS. Raises StoreUnavailable."""
    async with using(pool) as conn:
        await conn.execute(_SET, [_NAME, position])


_GET = "SELECT position FROM projection_positions WHERE name = %s"

_SET = """
INSERT INTO projection_positions (name, version, position) VALUES (%s, 1, %s)
ON CONFLICT (name) DO UPDATE SET position = excluded.position
"""
