"""The log with what is archived, for who reads all of it: rebuilds, verifications, exports, audits.

A page is read from the index of the archive first, and then from the log. What is brought back in between is
in both, and counts once; what is archived in between is still in the log, for GRACE_SECONDS. Where reading
the files took nearly so long, the index is read once more.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from pathlib import Path

from conversations.archive.archive import Archive
from conversations.archive.archive_store import FolderStore
from conversations.archive.archive_tables import GRACE_SECONDS
from conversations.archive.parquet_file import ArchivedRow
from conversations.event_store.log import Log, LogEntry, open_log
from runtime.postgres import Pool, open_pool


class ArchiveLog(Log):
    """Reads both, and brings nothing back. Calls raise UnreadableArchive too."""

    reads_archive = True

    def __init__(self, pool: Pool, archive: Archive) -> None:
        super().__init__(pool)
        self._archive = archive

    async def read(
        self, after: int, limit: int, *, without: Collection[str] = (), until: int | None = None
    ) -> list[LogEntry]:
        """As `Log.read`; up to three times `limit`."""
        if until is None:
            until = await self.settled()
        clock = asyncio.get_running_loop().time
        began = clock()
        archived = [await self._archive.rows_after(after, until, limit)]
        page = await super().read(after, limit, without=without, until=until)
        if clock() - began > GRACE_SECONDS / 2:
            archived.append(await self._archive.rows_after(after, until, limit))
        ends = [rows[-1].position for rows in archived if rows]
        ends += [entry.position for entry in page[-1:]]
        found = {row.position: _entry(row, without) for rows in archived for row in rows}
        found |= {entry.position: entry for entry in page}
        return [found[position] for position in sorted(found) if position <= min(ends)]

    async def page_of(
        self, conversation_id: str, after_version: int, until_version: int | None, *, look: bool
    ) -> list[LogEntry]:
        """All that is wanted of an archived conversation: its file was read anyhow."""
        page = await self.page_in_log(conversation_id, after_version, until_version)
        if page or not look or (entry := await self._archive.find(conversation_id)) is None:
            return page
        if entry.in_log:  # it was archived before and has come back meanwhile
            return await self.page_in_log(conversation_id, after_version, until_version)
        last = entry.version if until_version is None else until_version
        rows = await self._archive.rows_of(entry)
        return [_entry(row) for row in rows if after_version < row.version <= last]

    async def conversation_ids(self, after: str, limit: int) -> list[str]:
        ids = set(await super().conversation_ids(after, limit))
        ids |= {entry.conversation_id for entry in await self._archive.entries(after, limit)}
        return sorted(ids)[:limit]

    async def accounts_of(self, conversation_ids: Collection[str]) -> dict[str, str]:
        archived = await self._archive.accounts_of(conversation_ids)
        return archived | await super().accounts_of(conversation_ids)


def _entry(row: ArchivedRow, without: Collection[str] = ()) -> LogEntry:
    state = b"" if row.topic in without else row.state
    return LogEntry(row.position, row.conversation_id, row.version, row.topic, state)


@contextlib.asynccontextmanager
async def open_archive_log(
    database_url: str, folder: Path | None, *, max_size: int = 4
) -> AsyncIterator[Log]:
    """A reader of the log and of the archive in a folder; of the log alone without one."""
    if folder is None:
        async with open_log(database_url, max_size=max_size) as log:
            yield log
        return
    async with open_pool(database_url, max_size=max_size) as pool:
        yield ArchiveLog(pool, Archive(pool, FolderStore(folder)))
