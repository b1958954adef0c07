"""Reads the archive: a conversation of it, or what it has of a stretch of the log."""

import asyncio
from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate, islice
from typing import LiteralString

import msgspec

from conversations.archive import parquet_file
from conversations.archive.archive_store import FolderStore
from conversations.archive.parquet_file import ArchivedRow
from conversations.errors import UnreadableArchive
from runtime.bounded import BoundedMap
from runtime.postgres import Pool, connection

PAGE_BYTES = 8 * 1024 * 1024
_CACHED_FILES = 16
_CACHED_BYTES = 128 * 1024 * 1024
"""Of events, in the files that were read last."""


class ArchivedConversation(msgspec.Struct, frozen=True):
    """An entry of the index. `seal` is that of its last link, `in_log` whether its rows are there too."""

    conversation_id: str
    account_id: str
    file: str
    generation: int
    version: int
    last_position: int
    seal: bytes
    in_log: bool


class _File(msgspec.Struct, frozen=True):
    name: str
    generation: int
    first_position: int


def file_name(name: str, generation: int) -> str:
    """A file keeps its name, and is of another generation after each time it was rewritten."""
    return f"{name}.{generation}.parquet"


class Archive:
    """The files of a store, by the index in Postgres. Calls raise DatabaseUnavailable, UnreadableArchive."""

    def __init__(self, pool: Pool, store: FolderStore) -> None:
        self.store = store
        self._pool = pool
        self._cached: BoundedMap[str, list[ArchivedRow]] = BoundedMap(_CACHED_FILES, _CACHED_BYTES)

    async def find(self, conversation_id: str) -> ArchivedConversation | None:
        """Its entry; None for one that is not archived."""
        return next(iter(await self._entries(_FIND, [conversation_id])), None)

    async def entries(self, after: str, limit: int) -> list[ArchivedConversation]:
        """Up to `limit` entries after a conversation's id, in the order of ids."""
        return await self._entries(_ENTRIES, [after, limit])

    async def accounts_of(self, conversation_ids: Collection[str]) -> dict[str, str]:
        """The accounts of those that are archived."""
        async with connection(self._pool) as conn:
            return dict(await (await conn.execute(_ACCOUNTS, [list(conversation_ids)])).fetchall())

    async def rows_of(self, entry: ArchivedConversation) -> list[ArchivedRow]:
        """Its rows in their order."""
        rows = await self.rows_in(entry.file, entry.generation)
        found = [row for row in rows if row.conversation_id == entry.conversation_id]
        if len(found) != entry.version:
            raise UnreadableArchive(
                f"conversation {entry.conversation_id} is not in {file_name(entry.file, entry.generation)}"
            )
        return found

    async def rows_after(self, after: int, until: int, limit: int) -> list[ArchivedRow]:
        """What is archived of positions in (after, until], in order: up to `limit` rows, and PAGE_BYTES.

        Also what is still in the log. Files are loaded in the order of their first positions, as few as it
        takes: a full page that ends before the next one begins is complete. No more than a page is held of
        them, since all files may overlap where conversations go on for months.
        """
        async with connection(self._pool) as conn:
            found = await (await conn.execute(_FILES, [after, until])).fetchall()
        rows: list[ArchivedRow] = []
        for file in (_File(*row) for row in found):
            if _is_full(rows, limit) and rows[-1].position < file.first_position:
                break
            rows += await self._archived_in(file, after, until, limit)
            rows = _page(sorted(rows, key=_position), limit)
        return rows

    async def rows_in(self, name: str, generation: int) -> list[ArchivedRow]:
        """All rows of a file; of a later generation where that one is not there (a restored database)."""
        key = file_name(name, generation)
        if (known := self._cached.get(key)) is not None:
            return known
        rows = await asyncio.to_thread(self._load, name, generation)
        self._cached.put(key, rows, sum(len(row.state) for row in rows))
        return rows

    async def _archived_in(self, file: _File, after: int, until: int, limit: int) -> list[ArchivedRow]:
        """The first of its rows, without those of conversations that have left the archive since."""
        async with connection(self._pool) as conn:
            found = await (await conn.execute(_CURRENT, [file.name])).fetchall()
        current = {conversation_id for (conversation_id,) in found}
        rows = await self.rows_in(file.name, file.generation) if current else []
        begin, end = (bisect_right(rows, each, key=_position) for each in (after, until))
        return list(islice((row for row in rows[begin:end] if row.conversation_id in current), limit))

    async def _entries(
        self, query: LiteralString, parameters: Sequence[object]
    ) -> list[ArchivedConversation]:
        async with connection(self._pool) as conn, conn.cursor(binary=True) as cursor:
            await cursor.execute(query, parameters)
            return [ArchivedConversation(*row) for row in await cursor.fetchall()]

    def _load(self, name: str, generation: int) -> list[ArchivedRow]:
        try:
            try:
                data = self.store.read(file_name(name, generation))
            except FileNotFoundError:
                data = self.store.read(self._newest(name, generation))
        except OSError as error:
            raise UnreadableArchive(f"{file_name(name, generation)} cannot be read: {error}") from error
        return parquet_file.decode(data)

    def _newest(self, name: str, generation: int) -> str:
        there = {each.rsplit(".", 2)[1] for each in self.store.names() if each.startswith(f"{name}.")}
        return file_name(name, max([generation, *(int(each) for each in there if each.isdigit())]))


def _position(row: ArchivedRow) -> int:
    return row.position


def _is_full(rows: Sequence[ArchivedRow], limit: int) -> bool:
    """Whether a page would have nothing of what comes after its last row."""
    return len(rows) >= limit or sum(len(row.state) for row in rows) >= PAGE_BYTES


def _page(rows: Sequence[ArchivedRow], limit: int) -> list[ArchivedRow]:
    before = accumulate((len(row.state) for row in rows), initial=0)
    return [row for row, size in zip(rows[:limit], before, strict=False) if size < PAGE_BYTES]


_ENTRY: LiteralString = """
SELECT conversation_id, account_id, file, generation, version, archived_conversations.last_position, seal,
       in_log
  FROM archived_conversations JOIN archive_files ON name = file
"""
_FIND: LiteralString = f"{_ENTRY} WHERE conversation_id = %s"
_ENTRIES: LiteralString = f"{_ENTRY} WHERE conversation_id > %s ORDER BY conversation_id LIMIT %s"

_ACCOUNTS = "SELECT conversation_id, account_id FROM archived_conversations WHERE conversation_id = ANY(%s)"

_FILES = """
SELECT name, generation, first_position FROM archive_files
 WHERE last_position > %s AND first_position <= %s ORDER BY first_position, name
"""

_CURRENT = "SELECT conversation_id FROM archived_conversations WHERE file = %s"
