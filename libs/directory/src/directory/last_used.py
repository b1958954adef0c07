"""When a key was last used: written off the request's path, at most once a minute a key."""

import asyncio
from types import TracebackType

from runtime import logs
from runtime.following import repeat
from runtime.postgres import DatabaseUnavailable, Pool, connection

WRITE_SECONDS = 15.0


class LastUsed:
    """Collects the keys that were used and writes them together: `async with LastUsed(pool) as last_used`."""

    def __init__(self, pool: Pool, *, every: float = WRITE_SECONDS) -> None:
        self._pool = pool
        self._every = every
        self._used: set[str] = set()
        self._log = logs.get_logger("directory")
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "LastUsed":
        writing = repeat(self.write, self._every, (), log=self._log, problem="last_used_not_written")
        self._task = asyncio.create_task(writing)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.write()

    def note(self, key_id: str) -> None:
        self._used.add(key_id)

    async def write(self) -> None:
        """Write what was noted. A key whose row was written within the minute is left alone."""
        used, self._used = self._used, set()
        if not used:
            return
        try:
            async with connection(self._pool) as conn:
                await conn.execute(
                    "UPDATE api_keys SET last_used_at = now() WHERE key_id = ANY(%s) "
                    "AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')",
                    [sorted(used)],
                )
        except DatabaseUnavailable as error:
            self._log.warning("last_used_not_written", keys=len(used), reason=str(error))
