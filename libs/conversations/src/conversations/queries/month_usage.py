"""The month in which accounts are counted now."""

from psycopg import sql

from conversations.database import NOW
from runtime.postgres import Pool, connection


async def this_month(pool: Pool) -> str:
    """Return the current month by Postgres' clock, in UTC: "2026-11". Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        row = await (await conn.execute(_THIS_MONTH)).fetchone()
    assert row is not None
    return str(row[0])


_THIS_MONTH = sql.SQL("SELECT substr({}, 1, 7)").format(NOW)
