"""Waits for others of Postgres that a test brings about."""

import asyncio
from typing import Any

from psycopg import AsyncConnection

_SECONDS = 40.0
_BLOCKED = "SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"


async def until_blocked_by(holder: AsyncConnection[Any], sessions: int = 1) -> None:
    """Until so many wait for a lock of this transaction, which by asking is not idle."""
    async with asyncio.timeout(_SECONDS):
        while (await holder.execute(_BLOCKED)).rowcount < sessions:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
