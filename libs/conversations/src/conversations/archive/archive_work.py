"""The projector's part in the archive: steps that each do some of what is due, and return how much."""

import asyncio

import psycopg

from conversations.archive import parquet_file
from conversations.archive.archive import Archive, file_name
from conversations.database import unbounded
from conversations.errors import UnreadableArchive
from runtime import metrics
from runtime.following import together
from runtime.logs import first_line, get_logger
from runtime.postgres import DatabaseUnavailable, Pool, connection

RECALLS_AT_ONCE = 3
"""Each takes a connection of the projector's pool."""
RECALL_TRIES = 3
ROWS_AT_ONCE = 2_000
FILES_AT_ONCE = 10
_UNFINISHED_SECONDS = 3600.0
"""A file that is not complete after so long is one whose writer was killed."""

_RECALL_SECONDS = 20.0
_DELETE_SECONDS = 120.0


class ArchiveWork:
    """On the files of one archive. Its steps raise DatabaseUnavailable."""

    def __init__(self, pool: Pool, archive: Archive) -> None:
        self._pool = pool
        self._archive = archive
        self._logger = get_logger("projector.archive")

    async def recall(self) -> int:
        """Bring back what was requested, the oldest request first, some side by side; what was tried before
        comes after the others.
        """
        async with connection(self._pool) as conn:
            requested = await (await conn.execute(_REQUESTED, [RECALLS_AT_ONCE])).fetchall()
        await together([self._answer(conversation_id) for (conversation_id,) in requested])
        return len(requested)

    async def _answer(self, conversation_id: str) -> None:
        """A request is over when its conversation is back, or cannot be; also where a try ended this process.

        Raises DatabaseUnavailable: then it is tried again.
        """
        async with connection(self._pool) as conn:
            row = await (await conn.execute(_TRY, [conversation_id])).fetchone()
        if row is None:
            return  # another projector leads, and has answered it
        outcome = "recalled"
        try:
            await self._try(conversation_id, row[0])
        except (UnreadableArchive, psycopg.Error):
            self._logger.exception("cannot_recall", conversation_id=conversation_id)
            outcome = "failed"
        metrics.RECALLS.add(outcome=outcome)
        async with connection(self._pool) as conn:
            await conn.execute(_ANSWERED, [conversation_id])

    async def _try(self, conversation_id: str, number: int) -> None:
        if number > RECALL_TRIES:
            raise UnreadableArchive(f"conversation {conversation_id} was tried {RECALL_TRIES} times")
        try:
            async with asyncio.timeout(_RECALL_SECONDS):
                await self.bring_back(conversation_id)
        except TimeoutError as error:
            raise DatabaseUnavailable(f"conversation {conversation_id}: the recall takes too long") from error

    async def bring_back(self, conversation_id: str) -> bool:
        """Insert the rows of an archived conversation where they were. False where it is not archived.

        Raises UnreadableArchive where its file does not have what was archived; DatabaseUnavailable.
        """
        entry = await self._archive.find(conversation_id)
        if entry is None:
            return False
        rows = [] if entry.in_log else await self._archive.rows_of(entry)
        columns = [
            [row.version for row in rows],
            [row.position for row in rows],
            [row.topic for row in rows],
            [row.state for row in rows],
            [row.hash for row in rows],
        ]
        async with connection(self._pool, seconds=_RECALL_SECONDS) as conn, conn.transaction():
            await conn.execute(_DURABLY)  # the file loses them next
            await unbounded(conn)
            try:
                await conn.execute(_RECALL, [conversation_id, *columns])
            except psycopg.errors.DataCorrupted as error:
                if entry.in_log:  # its rows were deleted since
                    return await self.bring_back(conversation_id)
                raise UnreadableArchive(f"conversation {conversation_id}: {first_line(error)}") from error
        self._logger.info("conversation_recalled", conversation_id=conversation_id, events=len(rows))
        return True

    async def delete_rows(self) -> int:
        """Delete rows that were archived long enough ago: of some conversations, or of a long one."""
        async with connection(self._pool, seconds=_DELETE_SECONDS) as conn, conn.transaction():
            await unbounded(conn)
            row = await (await conn.execute("SELECT delete_archived_rows(%s)", [ROWS_AT_ONCE])).fetchone()
        return row[0] if row else 0

    async def rewrite(self) -> int:
        """Write files again without the conversations that have left them: some of these files."""
        async with connection(self._pool) as conn:
            due = await (await conn.execute(_DUE, [_UNFINISHED_SECONDS, FILES_AT_ONCE])).fetchall()
        rewritten = 0
        for (name,) in due:
            try:
                await self._rewrite(name)
                rewritten += 1
            except (UnreadableArchive, OSError):
                self._logger.exception("cannot_rewrite", file=name)
        return rewritten

    async def _rewrite(self, name: str) -> None:
        """Raises UnreadableArchive, OSError, DatabaseUnavailable."""
        async with connection(self._pool) as conn:
            # From now on nothing is entered in the index for it; then what is in the index is all of it.
            row = await (await conn.execute(_COMPLETE, [name])).fetchone()
            # These first: one that leaves in between is not written, and its removal is for the next time.
            left = [id_ for (id_,) in await (await conn.execute(_LEFT, [name])).fetchall()]
            current = {id_ for (id_,) in await (await conn.execute(_CURRENT, [name])).fetchall()}
        if row is None or not current:
            if not await self._delete(name) and row is not None:
                self._logger.warning("archive_file_missing", file=name)
            await self._execute(_REMOVE, [name])
        else:
            generation = row[0]
            rows = await self._archive.rows_in(name, generation)
            data = await asyncio.to_thread(
                parquet_file.encode, [row for row in rows if row.conversation_id in current]
            )
            rewritten = file_name(name, generation + 1)
            await asyncio.to_thread(self._archive.store.write, rewritten, data)
            if not await self._execute(_REWRITTEN, [generation + 1, name, generation]):
                # A projector that leads now has. Ours may have replaced its file, and have more.
                await self._rewrite(name)
                return
            await self._delete(name, but=rewritten)
            await self._execute(_REMOVED, [name, left])
        self._logger.info("archive_file_rewritten", file=name, removed=len(left), left=len(current))

    async def _delete(self, name: str, *, but: str | None = None) -> int:
        """Every generation of a file: one may have been left by a process that was killed."""
        return await asyncio.to_thread(self._archive.store.delete, f"{name}.", but=but)

    async def _execute(self, statement: str, parameters: list[object]) -> int:
        """Returns how many rows it has changed."""
        async with connection(self._pool) as conn, conn.transaction():
            await conn.execute(_DURABLY)
            return (await conn.execute(statement.encode(), parameters)).rowcount


_DURABLY = "SET LOCAL synchronous_commit TO on"

_REQUESTED = "SELECT conversation_id FROM archive_recalls ORDER BY tries, requested_at LIMIT %s"

_TRY = "UPDATE archive_recalls SET tries = tries + 1 WHERE conversation_id = %s RETURNING tries"

_ANSWERED = "DELETE FROM archive_recalls WHERE conversation_id = %s"

_RECALL = """
SELECT recall_conversation(%b, %b::bigint[], %b::bigint[], %b::text[], %b::bytea[], %b::bytea[])
"""

_DUE = """
SELECT name FROM archive_files
 WHERE is_complete AND EXISTS (SELECT FROM archive_removals WHERE file = name)
    OR NOT is_complete AND begun_at < clock_timestamp() - make_interval(secs => %s)
 ORDER BY name LIMIT %s
"""

_COMPLETE = "UPDATE archive_files SET is_complete = true WHERE name = %s RETURNING generation"

_CURRENT = "SELECT conversation_id FROM archived_conversations WHERE file = %s"

_LEFT = "SELECT conversation_id FROM archive_removals WHERE file = %s"

_REWRITTEN = "UPDATE archive_files SET generation = %s WHERE name = %s AND generation = %s"

_REMOVED = "DELETE FROM archive_removals WHERE file = %s AND conversation_id = ANY(%s)"

_REMOVE = "DELETE FROM archive_files WHERE name = %s"
