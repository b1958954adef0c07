"""Remove files: with their last conversation, their user, their account, and by the sweep.

A file is marked as removed, which hides it; then its bytes are deleted, unless another file of the account
has the same, and then its row. An interruption leaves the mark, and the next sweep goes on.
"""

from collections.abc import Mapping, Sequence
from typing import LiteralString

from agentchat.files.errors import FilesUnavailable
from agentchat.files.object_store import SECONDS, ObjectStore
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import Connection, Pool, acquire_connection

UNUSED_DAYS = 30
"""Days after which a file that no conversation has is deleted."""

UPLOAD_SECONDS = 3600
"""Seconds after which an unfinished upload counts as abandoned."""

POLL_SECONDS = 600.0
"""The interval between sweeps."""

BATCH = 200


async def hold_content(conn: Connection, account_id: str, sha256: str) -> None:
    """Keep others from adding or removing a file with this content until the transaction ends.

    Without it, bytes could be deleted while a second file with the same content is stored.
    """
    await conn.execute("SET LOCAL idle_in_transaction_session_timeout TO '60s'")
    await conn.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{account_id}/{sha256}"])


async def remove_files(pool: Pool, objects: ObjectStore, file_ids: Sequence[str]) -> None:
    """Remove these files. Raises DatabaseUnavailable."""
    await _mark(pool, _MARK_THESE, {"file_ids": list(file_ids)})
    await _delete_marked(pool, objects, _FIND_THESE, {"file_ids": list(file_ids)})


async def remove_files_of_conversation(
    pool: Pool, objects: ObjectStore, conversation_id: str, file_ids: Sequence[str]
) -> None:
    """Remove those files of an erased conversation that no other has. Raises DatabaseUnavailable."""
    values = {"file_ids": list(file_ids), "conversation_id": conversation_id}
    if await _mark(pool, _MARK_OF_CONVERSATION, values):
        await _delete_marked(pool, objects, _FIND_THESE, values)


async def remove_files_of_owner(
    pool: Pool, objects: ObjectStore, account_id: str, user_id: str | None = None
) -> None:
    """Remove all files of a user, or of an account. Raises DatabaseUnavailable."""
    owner = {"account_id": account_id, "user_id": user_id}
    await _mark(pool, _MARK_OF_OWNER, owner)
    while await _delete_marked(pool, objects, _FIND_OF_OWNER, owner | {"limit": BATCH}):
        pass


async def sweep_files(
    pool: Pool, objects: ObjectStore, *, unused_days: int = UNUSED_DAYS, upload_seconds: int = UPLOAD_SECONDS
) -> bool:
    """Remove expired and unused files, and what interruptions left; return True if there may be more.

    Raises DatabaseUnavailable.
    """
    bounds = {"days": unused_days, "seconds": upload_seconds, "limit": BATCH}
    marked = await _mark(pool, _MARK_OLD, bounds)
    deleted = await _delete_marked(pool, objects, _FIND_MARKED, bounds)
    return deleted > 0 and max(marked, deleted) >= BATCH


async def _mark(pool: Pool, statement: LiteralString, values: Mapping[str, object]) -> int:
    async with acquire_connection(pool) as conn:
        return (await conn.execute(statement, values)).rowcount


async def _delete_marked(
    pool: Pool, objects: ObjectStore, statement: LiteralString, values: Mapping[str, object]
) -> int:
    """Delete the bytes and rows of marked files; return how many."""
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(statement, values)).fetchall()
    deleted = 0
    for file_id, account_id, sha256 in rows:
        try:
            await _delete_row(pool, objects, file_id, account_id, sha256)
            deleted += 1
        except FilesUnavailable as error:
            get_logger("agentchat.files").warning("bytes_not_deleted", file_id=file_id, reason=str(error))
    return deleted


async def _delete_row(pool: Pool, objects: ObjectStore, file_id: str, account_id: str, sha256: str) -> None:
    async with acquire_connection(pool, seconds=SECONDS) as conn, conn.transaction():
        await hold_content(conn, account_id, sha256)
        if await (await conn.execute(_FIND_OTHER, [account_id, sha256])).fetchone() is None:
            await objects.delete(account_id, sha256)
        await conn.execute(_DELETE, [file_id])


_MARK_THESE: LiteralString = "UPDATE files SET state = 'removed' WHERE file_id = ANY(%(file_ids)s)"

_MARK_OF_CONVERSATION: LiteralString = """
UPDATE files SET state = 'removed'
 WHERE file_id = ANY(%(file_ids)s)
   AND NOT EXISTS (SELECT FROM conversations AS used
                    WHERE used.file_ids @> ARRAY[files.file_id] AND used.file_ids <> '{}'
                      AND used.conversation_id <> %(conversation_id)s)
"""

_MARK_OF_OWNER: LiteralString = """
UPDATE files SET state = 'removed'
 WHERE account_id = %(account_id)s AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
"""

_MARK_OLD: LiteralString = """
UPDATE files SET state = 'removed'
 WHERE file_id IN (
       SELECT file_id FROM files
        WHERE state = 'uploading' AND created_at < clock_timestamp() - make_interval(secs => %(seconds)s)
           OR state = 'stored' AND (
                 expires_at < clock_timestamp()
              OR created_at < clock_timestamp() - make_interval(days => %(days)s)
                 AND NOT EXISTS (SELECT FROM conversations AS used
                                  WHERE used.file_ids @> ARRAY[files.file_id] AND used.file_ids <> '{}')
              OR NOT EXISTS (SELECT FROM accounts WHERE accounts.account_id = files.account_id))
        LIMIT %(limit)s)
"""

_MARKED: LiteralString = "SELECT file_id, account_id, sha256 FROM files WHERE state = 'removed'"

_FIND_THESE: LiteralString = _MARKED + " AND file_id = ANY(%(file_ids)s)"

_FIND_OF_OWNER: LiteralString = (
    _MARKED
    + """
 AND account_id = %(account_id)s AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s) LIMIT %(limit)s"""
)

_FIND_MARKED: LiteralString = _MARKED + " ORDER BY created_at LIMIT %(limit)s"

_FIND_OTHER: LiteralString = (
    "SELECT FROM files WHERE account_id = %s AND sha256 = %s AND state <> 'removed' LIMIT 1"
)

_DELETE: LiteralString = "DELETE FROM files WHERE file_id = %s AND state = 'removed'"
