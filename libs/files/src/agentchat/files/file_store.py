"""Store, find, read and delete files."""

import asyncio
import hashlib
import io
from collections.abc import AsyncIterable, AsyncIterator, Collection

import msgspec

from agentchat.contracts.files import MAX_FILE_BYTES, StoredFile
from agentchat.contracts.ids import make_id
from agentchat.contracts.ownership import Owned, may_use
from agentchat.contracts.text_checks import shorten_line
from agentchat.files.errors import FileGone, FilesUnavailable, FileTooLarge, QuotaExceeded
from agentchat.files.file_removal import hold_content, remove_files
from agentchat.files.media_types import inspect
from agentchat.files.object_store import TEXT, ObjectStore
from agentchat.runtime.postgres import Pool, acquire_connection

_MAX_NAME = 255


class FileRow(msgspec.Struct, frozen=True, kw_only=True):
    """A file with its owner. Times are ISO 8601 in UTC; at `expires_at` it is deleted."""

    account_id: str
    user_id: str | None
    stored: StoredFile
    purpose: str
    created_at: str
    expires_at: str | None


class FileStore:
    """The files of all accounts."""

    def __init__(self, pool: Pool, objects: ObjectStore) -> None:
        self._pool = pool
        self._objects = objects

    async def put(
        self,
        account_id: str,
        user_id: str | None,
        name: str,
        data: bytes | AsyncIterable[bytes],
        *,
        claimed_type: str | None = None,
        purpose: str = "user_data",
        expires_seconds: int | None = None,
        room: int | None = None,
    ) -> StoredFile:
        """Store a file, after a look inside.

        `claimed_type` is the sender's Content-Type (`media_types.inspect`); `room` is what the plan has left,
        in bytes. Raises FileTooLarge, UnsupportedFile, QuotaExceeded, FilesUnavailable, DatabaseUnavailable.
        """
        content = await _gather(data)
        media_type, content = await asyncio.to_thread(inspect, content, name, claimed_type)
        if room is not None and len(content) > room:
            raise QuotaExceeded("The plan lets the account store no more.")
        stored = StoredFile(
            file_id=make_id(),
            sha256=hashlib.sha256(content).hexdigest(),
            media_type=media_type,
            bytes=len(content),
            name=_clean_name(name),
        )
        row = msgspec.structs.asdict(stored) | {
            "account_id": account_id,
            "user_id": user_id,
            "purpose": purpose,
            "expires_seconds": expires_seconds,
        }
        async with acquire_connection(self._pool) as conn, conn.transaction():
            await hold_content(conn, account_id, stored.sha256)
            await conn.execute(_INSERT, row)
        await self._objects.write(account_id, stored.sha256, content)
        async with acquire_connection(self._pool) as conn:
            finished = await conn.execute(_FINISH, [stored.file_id])
        if finished.rowcount == 0:
            raise FilesUnavailable("the upload took too long and was swept")
        return stored

    async def get(self, owner: Owned, file_id: str) -> FileRow | None:
        """Return a file that the owner may use, or None. Raises DatabaseUnavailable."""
        async with acquire_connection(self._pool) as conn:
            found = await (await conn.execute(_GET, [file_id])).fetchone()
        file = None if found is None else _build_file(*found)
        return file if file is not None and may_use(owner, file) else None

    async def list_files(self, owner: Owned, *, limit: int, before: str | None = None) -> list[FileRow]:
        """List up to `limit` files that the owner may use, the newest first, older than the file `before`.

        Raises DatabaseUnavailable.
        """
        asked = {"account_id": owner.account_id, "user_id": owner.user_id, "before": before, "limit": limit}
        async with acquire_connection(self._pool) as conn:
            return [_build_file(*row) for row in await (await conn.execute(_LIST, asked)).fetchall()]

    async def read(self, account_id: str, sha256: str) -> bytes:
        """Return the bytes of an account's file. Raises FileGone, FilesUnavailable."""
        return await self._objects.read(account_id, sha256)

    async def find_stored(self, account_id: str, file_ids: Collection[str]) -> set[str]:
        """Return those of an account's files that were not deleted. Raises DatabaseUnavailable."""
        if not file_ids:
            return set()
        async with acquire_connection(self._pool) as conn:
            rows = await (await conn.execute(_FIND_STORED, [account_id, list(file_ids)])).fetchall()
        return {file_id for (file_id,) in rows}

    async def read_text(self, account_id: str, sha256: str, version: int) -> str | None:
        """Return the text that `write_text` stored of a file, or None. Raises FilesUnavailable."""
        try:
            stored = (await self._objects.read(account_id, f"{sha256}{TEXT}")).decode()
        except FileGone:
            return None
        written, _, text = stored.partition("\n")
        return text if written == str(version) else None

    async def write_text(self, account_id: str, sha256: str, version: int, text: str) -> None:
        """Store a file's extracted text beside its bytes, unless the file was deleted meanwhile.

        Raises FilesUnavailable, DatabaseUnavailable.
        """
        async with acquire_connection(self._pool) as conn, conn.transaction():
            await hold_content(conn, account_id, sha256)
            if await (await conn.execute(_FIND_CONTENT, [account_id, sha256])).fetchone() is not None:
                await self._objects.write(account_id, f"{sha256}{TEXT}", f"{version}\n{text}".encode())

    def stream(self, account_id: str, sha256: str) -> AsyncIterator[bytes]:
        """Yield the bytes in chunks. Raises FileGone, FilesUnavailable."""
        return self._objects.stream(account_id, sha256)

    async def delete(self, owner: Owned, file_id: str) -> bool:
        """Delete a file that the owner may use; return False if there is none.

        If the object store does not answer, the bytes are deleted by the next sweep. Raises
        DatabaseUnavailable.
        """
        file = await self.get(owner, file_id)
        if file is None:
            return False
        await remove_files(self._pool, self._objects, [file_id])
        return True


async def has_files(pool: Pool, account_id: str, user_id: str) -> bool:
    """Return True if an end user has files. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        return await (await conn.execute(_HAS_FILES, [account_id, user_id])).fetchone() is not None


async def sum_file_bytes(pool: Pool, account_id: str | None = None) -> dict[str, int]:
    """Sum the bytes of the files of one account or of each. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_SUM, {"account_id": account_id})).fetchall()
    return {account: int(total) for account, total in rows}


async def _gather(data: bytes | AsyncIterable[bytes]) -> bytes:
    """Return the bytes, held once. Raises FileTooLarge."""
    gathered = io.BytesIO() if not isinstance(data, bytes) else io.BytesIO(data)
    if not isinstance(data, bytes):
        async for chunk in data:
            gathered.write(chunk)
            if gathered.tell() > MAX_FILE_BYTES:
                break
    if gathered.getbuffer().nbytes > MAX_FILE_BYTES:
        raise FileTooLarge(f"The file has more than {MAX_FILE_BYTES // 1024**2} MiB.")
    return gathered.getvalue()  # shares the buffer


def _clean_name(name: str) -> str:
    """Return the name without a path, on one line."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1].strip()
    return shorten_line(last, _MAX_NAME) or "file"


def _build_file(
    file_id: str,
    account_id: str,
    user_id: str | None,
    sha256: str,
    media_type: str,
    size: int,
    name: str,
    purpose: str,
    created_at: str,
    expires_at: str | None,
) -> FileRow:
    stored = StoredFile(file_id=file_id, sha256=sha256, media_type=media_type, bytes=size, name=name)
    return FileRow(
        account_id=account_id,
        user_id=user_id,
        stored=stored,
        purpose=purpose,
        created_at=created_at,
        expires_at=expires_at,
    )


_INSERT = """
INSERT INTO files (file_id, account_id, user_id, sha256, media_type, bytes, name, purpose, state, expires_at)
VALUES (%(file_id)s, %(account_id)s, %(user_id)s, %(sha256)s, %(media_type)s, %(bytes)s, %(name)s,
        %(purpose)s, 'uploading', clock_timestamp() + make_interval(secs => %(expires_seconds)s))
"""

_FINISH = "UPDATE files SET state = 'stored' WHERE file_id = %s AND state = 'uploading'"

_FIND_STORED = """
SELECT file_id FROM files
 WHERE account_id = %s AND file_id = ANY(%s) AND state = 'stored'
   AND (expires_at IS NULL OR expires_at > clock_timestamp())
"""

_FIND_CONTENT = "SELECT FROM files WHERE account_id = %s AND sha256 = %s AND state = 'stored' LIMIT 1"

_COLUMNS = """
SELECT file_id, account_id, user_id, sha256, media_type, bytes, name, purpose,
       to_char(created_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
       to_char(expires_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
  FROM files
 WHERE state = 'stored' AND (expires_at IS NULL OR expires_at > clock_timestamp())
"""

_GET = _COLUMNS + " AND file_id = %s"

_LIST = (
    _COLUMNS
    + """
   AND account_id = %(account_id)s
   AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
   AND (%(before)s::text IS NULL OR file_id < %(before)s)
 ORDER BY file_id DESC LIMIT %(limit)s
"""
)

_HAS_FILES = "SELECT FROM files WHERE account_id = %s AND user_id = %s AND state = 'stored' LIMIT 1"

_SUM = """
SELECT account_id, sum(bytes) FROM files
 WHERE state = 'stored' AND (%(account_id)s::text IS NULL OR account_id = %(account_id)s)
 GROUP BY account_id
"""
