"""Files go with their conversations and owners; the sweep removes the rest."""

from pathlib import Path

import pytest

from agentchat.contracts.ids import make_id
from agentchat.contracts.ownership import Owner
from agentchat.files.file_removal import (
    remove_files_of_conversation,
    remove_files_of_owner,
    sweep_files,
)
from agentchat.files.file_store import FileStore
from agentchat.files.object_store import ObjectStore
from agentchat.runtime.postgres import Connection, Pool


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours handles it."""


class KilledStore(ObjectStore):
    """The process is killed in a call of the store: before its effect, or after it."""

    def __init__(self, url: str, *, after: bool) -> None:
        super().__init__(url)
        self._after = after

    async def write(self, account_id: str, sha256: str, content: bytes) -> None:
        if self._after:
            await super().write(account_id, sha256, content)
        raise Killed

    async def delete(self, account_id: str, sha256: str) -> None:
        if self._after:
            await super().delete(account_id, sha256)
        raise Killed


async def use(conn: Connection, conversation_id: str, file_id: str) -> None:
    await conn.execute(_USE, [conversation_id, file_id])


async def create_account(conn: Connection) -> str:
    account = make_id()
    await conn.execute(
        "INSERT INTO accounts (account_id, name, plan) VALUES (%s, %s, 'Pro')", [account, account]
    )
    return account


def list_bytes(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


async def test_a_file_goes_with_its_last_conversation(
    files: FileStore, pool: Pool, objects: ObjectStore, conn: Connection, folder: Path
) -> None:
    account = await create_account(conn)
    once, twice = [await files.put(account, None, "a", text) for text in (b"once", b"twice")]
    first, fork = make_id(), make_id()
    for conversation_id, file in ((first, once), (first, twice), (fork, twice)):
        await use(conn, conversation_id, file.file_id)
    ids = [once.file_id, twice.file_id]
    await remove_files_of_conversation(pool, objects, first, ids)
    assert list_bytes(folder) == [twice.sha256]
    await conn.execute("DELETE FROM conversations WHERE conversation_id = %s", [first])
    await remove_files_of_conversation(pool, objects, fork, ids)
    assert list_bytes(folder) == []


async def test_files_go_with_their_user_and_account(
    files: FileStore, pool: Pool, objects: ObjectStore, conn: Connection, folder: Path
) -> None:
    account, other = await create_account(conn), await create_account(conn)
    for owner, user in ((account, "ada"), (account, "bob"), (account, None), (other, "ada")):
        await files.put(owner, user, "a", b"text")
    await remove_files_of_owner(pool, objects, account, "ada")
    assert {file.user_id for file in await files.list_files(Owner(account), limit=9)} == {"bob", None}
    await remove_files_of_owner(pool, objects, account)
    assert await files.list_files(Owner(account), limit=9) == []
    assert len(list_bytes(folder)) == 1


async def test_the_sweep_removes_expired_unused_and_ownerless_files(
    files: FileStore, pool: Pool, objects: ObjectStore, conn: Connection, folder: Path
) -> None:
    account = await create_account(conn)
    names = ("fresh", "used", "unused", "expired")
    stored = {name: await files.put(account, None, name, name.encode()) for name in names}
    await files.put(make_id(), None, "of a deleted account", b"ownerless")
    await use(conn, make_id(), stored["used"].file_id)
    await conn.execute(
        "UPDATE files SET created_at = created_at - interval '31 days' WHERE name IN ('used', 'unused')"
    )
    await conn.execute("UPDATE files SET expires_at = clock_timestamp() WHERE name = 'expired'")
    assert not await sweep_files(pool, objects)
    left = await files.list_files(Owner(account), limit=9)
    assert {file.stored.name for file in left} == {"fresh", "used"}
    assert list_bytes(folder) == sorted(file.stored.sha256 for file in left)


@pytest.mark.parametrize("after", [False, True], ids=["bytes unwritten", "bytes written"])
async def test_a_killed_upload_leaves_no_orphan(
    pool: Pool, objects: ObjectStore, conn: Connection, folder: Path, after: bool
) -> None:
    account = await create_account(conn)
    with pytest.raises(Killed):
        await FileStore(pool, KilledStore(folder.as_uri(), after=after)).put(account, None, "a", b"text")
    assert await FileStore(pool, objects).list_files(Owner(account), limit=5) == []
    (sha256,) = await list_content(conn, account)
    (folder / account).mkdir(exist_ok=True)
    (folder / account / f"{sha256}#1").write_bytes(b"te")  # as a killed writer leaves it
    await sweep_files(pool, objects)
    assert list_bytes(folder)  # an hour has not passed
    await sweep_files(pool, objects, upload_seconds=0)
    assert list_bytes(folder) == await list_content(conn, account) == []


@pytest.mark.parametrize("after", [False, True], ids=["bytes there", "bytes deleted"])
async def test_the_sweep_goes_on_with_a_killed_removal(
    files: FileStore, pool: Pool, objects: ObjectStore, conn: Connection, folder: Path, after: bool
) -> None:
    account = await create_account(conn)
    stored = await files.put(account, None, "a", b"text")
    killed = FileStore(pool, KilledStore(folder.as_uri(), after=after))
    with pytest.raises(Killed):
        await killed.delete(Owner(account), stored.file_id)
    assert await files.get(Owner(account), stored.file_id) is None
    await sweep_files(pool, objects)
    assert list_bytes(folder) == await list_content(conn, account) == []


async def list_content(conn: Connection, account: str) -> list[str]:
    rows = await (await conn.execute("SELECT sha256 FROM files WHERE account_id = %s", [account])).fetchall()
    return [sha256 for (sha256,) in rows]


_USE = """
INSERT INTO conversations AS kept
       (conversation_id, account_id, message_count, created_at, updated_at, listed, events, bytes, file_ids)
VALUES (%s, 'account', 1, '2026', '2026', true, 1, 1, ARRAY[%s])
ON CONFLICT (conversation_id) DO UPDATE SET file_ids = kept.file_ids || excluded.file_ids
"""
