"""A process that is killed while it stores and deletes files leaves none that is half there."""

import asyncio
import random
import sys
from pathlib import Path

import pytest

from agentchat.contracts.ownership import Owner
from agentchat.files.file_removal import sweep_files
from agentchat.files.file_store import FileStore
from agentchat.files.object_store import ObjectStore
from agentchat.runtime.postgres import Connection, Pool
from tests.files.test_file_removal import create_account, list_bytes

KILLS = 25


@pytest.mark.slow
async def test_kills_at_any_moment_leave_whole_files(
    files: FileStore,
    pool: Pool,
    objects: ObjectStore,
    conn: Connection,
    folder: Path,
    migrated_database_url: str,
) -> None:
    account, chance = await create_account(conn), random.Random(35)
    command = (sys.executable, "-m", "tests.files.uploading", migrated_database_url, folder.as_uri(), account)
    for _ in range(KILLS):
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"begun\n"
        await asyncio.sleep(chance.uniform(0, 0.15))
        process.kill()
        await process.wait()
    interrupted = await (await conn.execute("SELECT count(*) FROM files WHERE state <> 'stored'")).fetchone()
    assert interrupted is not None
    assert interrupted[0] > 0, "some kill came in the middle"
    while await sweep_files(pool, objects, upload_seconds=0):
        pass
    left = await files.list_files(Owner(account), limit=10_000)
    assert list_bytes(folder) == sorted({file.stored.sha256 for file in left})
    for file in left:
        assert len(await files.read(account, file.stored.sha256)) == file.stored.bytes
