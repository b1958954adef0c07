"""`agentchat migrate` on a database from before 0.10.0."""

import asyncio
import os
import sys

from agentchat.runtime.migrations import apply, open_migration


async def test_older_database_is_refused(database_url: str) -> None:
    async with open_migration(database_url) as conn:
        await conn.execute("DROP SCHEMA IF EXISTS public CASCADE")
        await conn.execute("CREATE SCHEMA public")
        await apply(conn, "conversations", ("CREATE TABLE conversation_events (hash bytea)",))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentchat.ops.main", "migrate"),
        env=os.environ | {"AGENTCHAT_DATABASE_URL": database_url},
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert errors.decode() == (
        "the database cannot be prepared: conversations step 1 is not the one that was applied:"
        " databases from before release 0.10.0 cannot be upgraded; start with an empty database\n"
    )
