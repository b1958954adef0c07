"""How long a call may take: so long without a sign of life, and until a moment that no sign defers. That
moment is by Postgres' clock, so that no decision depends on this host's.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime

from runtime.postgres import Pool, connection

Deferred = Callable[[float], None]
"""Called with the new end of a limit that is deferred; never blocks, and never raises."""


class TimeLimit:
    """`until`, on the loop's clock; each sign of life makes it `seconds` from then, up to `latest`."""

    def __init__(self, until: float, *, seconds: float = 0.0, latest: float = 0.0) -> None:
        self.until = until
        self.latest = max(latest, until)
        self._seconds = seconds
        self._followers: list[Deferred] = []

    def sign_of_life(self) -> None:
        """The server works on it."""
        until = min(asyncio.get_running_loop().time() + self._seconds, self.latest)
        if until > self.until:
            self.until = until
            for follower in self._followers:
                follower(until)

    @contextlib.contextmanager
    def followed(self, follower: Deferred) -> Iterator[None]:
        """Have `follower` called whenever the limit is deferred within this block."""
        self._followers.append(follower)
        try:
            yield
        finally:
            self._followers.remove(follower)

    @contextlib.asynccontextmanager
    async def enforced(self, grace: float = 0.0) -> AsyncIterator[None]:
        """Raises TimeoutError once it is over since `grace`, in whatever this block waits for."""
        async with asyncio.timeout_at(self.until + grace) as scope:
            with self.followed(lambda until: deferred(scope, until + grace)):
                yield


def deferred(scope: asyncio.Timeout, until: float) -> None:
    """Move the end of `scope`, unless it has come."""
    if not scope.expired():
        scope.reschedule(until)


_KEPT_SECONDS = 30.0
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"


class DatabaseClock:
    """Postgres' clock: read every 30 s, and continued by this host's monotonic clock in between."""

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
