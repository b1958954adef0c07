"""How long a call may take: so long without a sign of life, and until a moment that no sign defers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

Deferred = Callable[[float], None]
"""What hears of a limit that is deferred, and until when; it never blocks, and never raises."""


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
