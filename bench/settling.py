"""When the service has nothing left to do after its answers."""

import asyncio
from typing import LiteralString

import psycopg

_SECONDS = 120.0
_IS_SETTLED: LiteralString = """
SELECT NOT EXISTS (SELECT FROM run_leases)
   AND (SELECT min(position) FROM projection_positions WHERE name <> 'events_feed')
       >= (SELECT coalesce(max(notification_id), 0) FROM conversation_events)
"""
_LAST: LiteralString = "SELECT coalesce(max(notification_id), 0) FROM conversation_events"


async def settled(database_url: str, seconds: float = _SECONDS) -> None:
    """No run has a lease, and all events are in the read models. Raises TimeoutError."""
    async with (
        asyncio.timeout(seconds),
        await psycopg.AsyncConnection.connect(database_url, autocommit=True) as conn,
    ):
        while True:
            row = await (await conn.execute(_IS_SETTLED)).fetchone()
            if row and row[0]:
                return
            await asyncio.sleep(0.05)


async def last_position(database_url: str) -> int:
    """Of the log, 0 where it is empty."""
    async with await psycopg.AsyncConnection.connect(database_url) as conn:
        row = await (await conn.execute(_LAST)).fetchone()
    return int(row[0]) if row else 0
