"""Postgres' clock, by which deadlines are judged, so that no decision depends on what this host's says."""

import asyncio
import time
from datetime import UTC, datetime

from runtime.postgres import Pool, connection

_KEPT_SECONDS = 30.0
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"


class DatabaseClock:
    """Asked for once in a while, and carried on by this host's monotonic clock in between."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._asked_at = float("-inf")
        self._ahead = 0.0
        self._asking = asyncio.Lock()

    async def seconds_until(self, at: str) -> float:
        """How long until `at` (ISO 8601); negative where it has passed.

        Raises DatabaseUnavailable, and ValueError for what is no time.
        """
        until = moment(at).timestamp()
        if time.monotonic() - self._asked_at > _KEPT_SECONDS:
            await self._ask()
        return until - (time.monotonic() + self._ahead)

    async def _ask(self) -> None:
        async with self._asking:
            began = time.monotonic()
            if began - self._asked_at <= _KEPT_SECONDS:
                return
            async with connection(self._pool) as conn:
                row = await (await conn.execute(_NOW)).fetchone()
            assert row is not None
            self._asked_at = time.monotonic()
            self._ahead = row[0] - (began + self._asked_at) / 2


def moment(at: str) -> datetime:
    """A time in ISO 8601, in UTC where it names no zone. Raises ValueError."""
    found = datetime.fromisoformat(at)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
