"""Share pages of the log: a page that one follower has read is not read again by another."""

import asyncio
import time
from collections.abc import Collection

import msgspec

from agentchat.conversations.event_store.event_log import EntryPage, Log
from agentchat.runtime.postgres import Pool

SHARED_SECONDS = 0.05
"""The longest time that a page is shared: a notification of an append may have been lost."""


class _Page(msgspec.Struct, frozen=True):
    after: int
    limit: int
    appends: int
    read_at: float
    entries: EntryPage


class SharedLog(Log):
    """Keeps the page read last, decoded, for other followers at the same position."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._reading = asyncio.Lock()
        self._appends = 0
        self._page: _Page | None = None

    def note_append(self) -> None:
        """Note that there may be more than what was read."""
        self._appends += 1

    async def read(
        self, after: int, limit: int, *, without: Collection[str] = (), until: int | None = None
    ) -> EntryPage:
        """Read as `Log.read` does, but with every state.

        Another follower may need what this one does not.
        """
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
