"""Judge deadlines by Postgres' clock, so that no decision depends on this host's clock."""

import asyncio
import time
from datetime import UTC, datetime

from agentchat.runtime.postgres import Pool, acquire_connection

_REFRESH_SECONDS = 30.0
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"


class DatabaseClock:
    """Postgres' clock: read every 30 s, continued by this host's monotonic clock in between."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._read_at = float("-inf")
        self._offset = 0.0
        self._reading = asyncio.Lock()

    async def get_seconds_until(self, at: str) -> float:
        """Return the seconds until `at` (ISO 8601); negative if it has passed.

        Raises:
            DatabaseUnavailable: The clock could not be read.
            ValueError: `at` is not a time.
        """
        until = parse_time(at).timestamp()
        if time.monotonic() - self._read_at > _REFRESH_SECONDS:
            await self._read()
        return until - (time.monotonic() + self._offset)

    async def _read(self) -> None:
        async with self._reading:
            began = time.monotonic()
            if began - self._read_at <= _REFRESH_SECONDS:
                return
            async with acquire_connection(self._pool) as conn:
                row = await (await conn.execute(_NOW)).fetchone()
            assert row is not None
            self._read_at = time.monotonic()
            self._offset = row[0] - (began + self._read_at) / 2


def parse_time(at: str) -> datetime:
    """Parse an ISO 8601 time; without a zone it is UTC. Raises ValueError."""
    parsed = datetime.fromisoformat(at)
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed
