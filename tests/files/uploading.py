"""`python -m tests.files.uploading DATABASE FOLDER-URL ACCOUNT`: store and delete files until killed."""

import asyncio
import os
import sys

from agentchat.contracts.ownership import Owner
from agentchat.files.file_store import FileStore
from agentchat.files.object_store import ObjectStore
from agentchat.runtime.postgres import open_pool


async def _upload(database_url: str, folder: str, account: str) -> None:
    async with open_pool(database_url) as pool:
        files = FileStore(pool, ObjectStore(folder))
        print("begun", flush=True)
        while True:
            content = os.urandom(8_000_000).hex().encode()
            kept, twin = [await files.put(account, None, "a", content) for _ in range(2)]
            await files.delete(Owner(account), kept.file_id)
            if content[0] % 2:
                await files.delete(Owner(account), twin.file_id)


if __name__ == "__main__":
    asyncio.run(_upload(*sys.argv[1:]))
