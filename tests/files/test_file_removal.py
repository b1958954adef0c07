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
from agentchat.runtime import failpoints
from agentchat.runtime.postgres import Connection, Pool


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours handles it."""


def kill_at(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def reach(name: str) -> None:
        if name == place:
            raise Killed

    monkeypatch.setattr(failpoints, "reach", reach)


async def use(conn: Connection, conversation_id: str, file_id: str) -> None:
    await conn.execute("INSERT INTO conversation_files VALUES (%s, %s)", [conversation_id, file_id])


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
    await conn.execute("DELETE FROM conversation_files WHERE conversation_id = %s", [first])
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


@pytest.mark.parametrize("place", ["file-row-inserted", "file-bytes-written"])
async def test_a_killed_upload_leaves_no_orphan(
    files: FileStore,
    pool: Pool,
    objects: ObjectStore,
    conn: Connection,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    account = await create_account(conn)
    kill_at(monkeypatch, place)
    with pytest.raises(Killed):
        await files.put(account, None, "a", b"text")
    monkeypatch.undo()
    assert await files.list_files(Owner(account), limit=5) == []
    (folder / account).mkdir(exist_ok=True)
    sha256 = (
        await (await conn.execute("SELECT sha256 FROM files WHERE account_id = %s", [account])).fetchall()
    )[0][0]
    (folder / account / f"{sha256}#1").write_bytes(b"te")  # as a killed writer leaves it
    await sweep_files(pool, objects)
    assert list_bytes(folder)  # an hour has not passed
    await sweep_files(pool, objects, upload_seconds=0)
    assert list_bytes(folder) == []


@pytest.mark.parametrize("place", ["file-removal-marked", "file-bytes-deleted"])
async def test_the_sweep_goes_on_with_a_killed_removal(
    files: FileStore,
    pool: Pool,
    objects: ObjectStore,
    conn: Connection,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    account = await create_account(conn)
    stored = await files.put(account, None, "a", b"text")
    kill_at(monkeypatch, place)
    with pytest.raises(Killed):
        await files.delete(Owner(account), stored.file_id)
    monkeypatch.undo()
    assert await files.get(Owner(account), stored.file_id) is None
    await sweep_files(pool, objects)
    assert list_bytes(folder) == []
    left = await (await conn.execute("SELECT FROM files WHERE account_id = %s", [account])).fetchall()
    assert left == []
