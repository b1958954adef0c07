"""Postgres as if it had been there for long, or away for a while: what is measured on its clock is moved."""

from agentchat.runtime.postgres import Connection, Pool, acquire_connection

_LONG = """
INSERT INTO availability (since, noted_at)
VALUES (clock_timestamp() - interval '1 hour', clock_timestamp())
ON CONFLICT (only_row) DO UPDATE SET since = excluded.since, noted_at = excluded.noted_at
"""


async def make_steady(conn: Connection) -> None:
    """As if somebody had noted that Postgres is there, every second for an hour, until now."""
    await conn.execute(_LONG)


async def simulate_outage(pool: Pool, seconds: float) -> None:
    """As if Postgres had not answered anybody for so long, until now."""
    async with acquire_connection(pool) as conn:
        for table, moved in (
            ("run_leases", "expires_at = expires_at - {}"),
            ("availability", "since = since - {0}, noted_at = noted_at - {0}"),
        ):
            change = f"UPDATE {table} SET " + moved.format(f"interval '{seconds} seconds'")
            await conn.execute(change.encode())


async def make_available_for(pool: Pool, seconds: float) -> None:
    """As if Postgres had been noted to be there for so much longer."""
    async with acquire_connection(pool) as conn:
        await conn.execute("UPDATE availability SET since = since - make_interval(secs => %s)", [seconds])
