"""Moves cold conversations to the archive: up to FILE_CONVERSATIONS a file, then their entries in the index.

The file is on the disk, and was read again, before the first of its conversations is entered. A process that
is killed in between leaves a file that the projector removes, and nothing is missing from the log.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime

import msgspec

from conversations.archive import parquet_file
from conversations.archive.archive import file_name
from conversations.archive.archive_store import FolderStore
from conversations.archive.archive_tables import LEAST_DAYS
from conversations.archive.parquet_file import ArchivedRow
from conversations.database import server_now
from conversations.errors import UnreadableArchive, UnreadableEvent
from conversations.event_store import mapper
from conversations.transfer.file_format import settled
from runtime.postgres import Pool, connection

FILE_CONVERSATIONS = 500
FILE_BYTES = 16 * 1024 * 1024
"""Of events: a file with one more conversation may have more."""

_PAGE = 5_000
"""Conversations a look at the read model, which has no order by age."""

_AT_ONCE = 25
"""So many are entered in a transaction: it holds the locks by which their appends take turns."""

_READ_SECONDS = 60.0


class Archived(msgspec.Struct, kw_only=True):
    """What was moved. `left_in_log` are cold conversations that were not: a run has no end, an event cannot
    be read by this release, or something was appended meanwhile.
    """

    conversations: int = 0
    events: int = 0
    event_bytes: int = 0
    files: int = 0
    file_bytes: int = 0
    left_in_log: int = 0


class _File(msgspec.Struct):
    """What the next file will have."""

    rows: list[list[ArchivedRow]] = []
    bytes: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= FILE_CONVERSATIONS or self.bytes >= FILE_BYTES


class Archiver:
    """`pool` acts as the database's owner."""

    def __init__(
        self,
        pool: Pool,
        store: FolderStore,
        *,
        days: int,
        account_id: str | None = None,
        on_file: Callable[[Archived], None] = lambda _: None,
    ) -> None:
        if days < LEAST_DAYS:
            raise ValueError(f"conversations stay in the log for {LEAST_DAYS} days at least")
        self._pool = pool
        self._store = store
        self._days = days
        self._account_id = account_id
        self._on_file = on_file
        self._done = Archived()

    async def run(self) -> Archived:
        """Archive all that is cold. Raises DatabaseUnavailable, UnreadableArchive, OSError."""
        file = _File()
        async for conversation_id, account_id in self._cold():
            rows = await self._rows(conversation_id, account_id)
            if not _is_over(rows):
                self._done.left_in_log += 1
                continue
            file.rows.append(rows)
            file.bytes += sum(len(row.state) for row in rows)
            if file.is_full:
                await self._write(file)
                file = _File()
        if file.rows:
            await self._write(file)
        return self._done

    async def _cold(self) -> AsyncIterator[tuple[str, str]]:
        """The ids of conversations whose last message is old enough, and their accounts, the oldest first."""
        named: dict[str, object] = {
            "days": self._days,
            "account": self._account_id,
            "limit": _PAGE,
            "at": "",
            "id": "",
        }
        while True:
            async with connection(self._pool, seconds=_READ_SECONDS) as conn:
                found = await (await conn.execute(_COLD, named)).fetchall()
            for conversation_id, account_id, _ in found:
                yield conversation_id, account_id
            if len(found) < _PAGE:
                return
            named |= {"id": found[-1][0], "at": found[-1][2]}

    async def _rows(self, conversation_id: str, account_id: str) -> list[ArchivedRow]:
        async with connection(self._pool, seconds=_READ_SECONDS) as conn, conn.cursor(binary=True) as cursor:
            await cursor.execute(_ROWS, [conversation_id])
            return [
                ArchivedRow(position, conversation_id, account_id, version, topic, state, hash_)
                for position, version, topic, state, hash_ in await cursor.fetchall()
            ]

    async def _write(self, file: _File) -> None:
        rows = sorted(
            (row for conversation in file.rows for row in conversation), key=lambda row: row.position
        )
        data = await asyncio.to_thread(parquet_file.encode, rows)
        if await asyncio.to_thread(parquet_file.decode, data) != rows:
            raise UnreadableArchive("a file was not written as it is to be read")
        now = datetime.fromisoformat(await server_now(self._pool))
        name = f"{now:%Y%m%dT%H%M%SZ}-{os.urandom(4).hex()}"
        await self._execute(_BEGIN, [name, rows[0].position, rows[-1].position])
        await asyncio.to_thread(self._store.write, file_name(name, 1), data)
        entered: set[str] = set()
        for start in range(0, len(file.rows), _AT_ONCE):
            entered |= await self._enter(name, file.rows[start : start + _AT_ONCE])
        await self._execute(_END, [name, [rows[0].conversation_id for rows in file.rows]])
        self._done.files += 1
        self._done.file_bytes += len(data)
        self._done.conversations += len(entered)
        self._done.left_in_log += len(file.rows) - len(entered)
        self._done.events += sum(row.conversation_id in entered for row in rows)
        self._done.event_bytes += sum(len(row.state) for row in rows if row.conversation_id in entered)
        self._on_file(self._done)

    async def _enter(self, name: str, conversations: Sequence[Sequence[ArchivedRow]]) -> set[str]:
        """Those that have nothing more than what is in the file, and are cold by all other rules."""
        ids = [rows[0].conversation_id for rows in conversations]
        versions = [rows[-1].version for rows in conversations]
        async with connection(self._pool, seconds=_READ_SECONDS) as conn:
            found = await conn.execute(_ENTER, [name, ids, versions, self._days])
            return {conversation_id for (conversation_id,) in await found.fetchall()}

    async def _execute(self, statement: str, parameters: Sequence[object]) -> None:
        async with connection(self._pool) as conn:
            await conn.execute(statement.encode(), parameters)


def _is_over(rows: Sequence[ArchivedRow]) -> bool:
    """Whether no run is under way in a conversation, nor waits for a person, and all of it can be read."""
    try:
        stored = mapper.events_of((row.topic, row.state) for row in rows)
        return bool(stored) and settled(stored) == len(stored)
    except UnreadableEvent:
        return False


_COLD = """
SELECT conversation_id, account_id, updated_at FROM conversations
 WHERE updated_at::timestamptz < clock_timestamp() - make_interval(days => %(days)s)
   AND (updated_at, conversation_id) > (%(at)s, %(id)s)
   AND (%(account)s::text IS NULL OR account_id = %(account)s)
   AND NOT EXISTS (SELECT FROM archived_conversations WHERE conversation_id = conversations.conversation_id)
   AND NOT EXISTS (SELECT FROM recalled_conversations WHERE conversation_id = conversations.conversation_id)
   AND NOT EXISTS (SELECT FROM open_runs WHERE conversation_id = conversations.conversation_id)
 ORDER BY updated_at, conversation_id LIMIT %(limit)s
"""

_ROWS = """
SELECT notification_id, originator_version, topic, state, hash FROM conversation_events
 WHERE originator_id = %s ORDER BY originator_version
"""

_BEGIN = "INSERT INTO archive_files (name, first_position, last_position) VALUES (%s, %s, %s)"

_ENTER = "SELECT archive_conversations(%s, %s::text[], %s::bigint[], %s)"

_END = """
WITH complete AS (
    UPDATE archive_files SET is_complete = true WHERE name = %s RETURNING name
)
INSERT INTO archive_removals (file, conversation_id)
SELECT name, id FROM complete, unnest(%s::text[]) AS id
 WHERE NOT EXISTS (SELECT FROM archived_conversations WHERE conversation_id = id AND file = name)
ON CONFLICT DO NOTHING
"""
