"""The log for several who follow it side by side: a page that one of them has read is not read again."""

import asyncio
import time
from collections.abc import Collection

import msgspec

from agentchat.conversations.event_store.log import Log, LogEntry
from agentchat.runtime.postgres import Pool

SHARED_SECONDS = 0.05
"""A page is given to others for so long: an append may go unnoticed (no notification came)."""


class _Page(msgspec.Struct, frozen=True):
    after: int
    limit: int
    appends: int
    read_at: float
    entries: list[LogEntry]


class SharedLog(Log):
    """Keeps the page read last, with what was decoded of it, for who follows at the same place."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._reading = asyncio.Lock()
        self._appends = 0
        self._page: _Page | None = None

    def note_append(self) -> None:
        """There may be more than what was read."""
        self._appends += 1

    async def read(
        self, after: int, limit: int, *, without: Collection[str] = (), until: int | None = None
    ) -> list[LogEntry]:
        """As `Log.read`, but with every state: another follower may need what this one does not."""
        if until is not None:
            return await super().read(after, limit, without=without, until=until)
        async with self._reading:
            page = self._page
            if page is None or not self._is_fresh(page, after, limit):
                appends, now = self._appends, time.monotonic()
                page = _Page(after, limit, appends, now, await super().read(after, limit))
                self._page = page
        return page.entries

    def _is_fresh(self, page: _Page, after: int, limit: int) -> bool:
        fresh = page.appends == self._appends and time.monotonic() - page.read_at < SHARED_SECONDS
        return fresh and (page.after, page.limit) == (after, limit)
