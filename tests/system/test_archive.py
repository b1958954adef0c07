"""Cold conversations on a running stack: archived, read, continued and deleted as any other."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from contracts import ids
from conversations.aggregate.conversation import Conversation
from conversations.event_store.store import open_store
from ops import demo, folder_secrets
from ops.servers.postgres_server import Cluster
from tests.conversations.archived import at, days_ago
from tests.conversations.given import began, trace, turn
from tests.harness import RunningStack
from tests.system.calling import Caller

_READ = """
SELECT least((SELECT min(position) FROM projection_positions WHERE name IN (SELECT name FROM read_models)),
             (SELECT position FROM projection_positions WHERE name = 'events_feed'))
     > (SELECT max(notification_id) FROM conversation_events WHERE originator_id = ANY(%s))
"""


@pytest.fixture(scope="module")
def owner_url(stack: RunningStack) -> str:
    port = psycopg.conninfo.conninfo_to_dict(stack.environment.database_url)["port"]
    return Cluster(stack.folder, folder_secrets.keep(stack.folder.secrets).servers_key).url(int(port or 0))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what a projector does by itself."""
    async with asyncio.timeout(30):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.05)


async def cold_threads(stack: RunningStack, caller: Caller, owner_url: str) -> list[tuple[str, str]]:
    """Conversations of a year ago with the trace of their run; followers are past them, their day is over."""
    made = []
    async with open_store(stack.environment.database_url) as store:
        for _ in range(3):
            word = ids.new_id()[-12:]
            started = replace(began(), account_id=demo.ACCOUNT_ID)
            stored = at(days_ago(400), [started, *turn(word, "Is it blue?", f"It is, {word}.")])
            thread = await store.append(Conversation(conversation_id=ids.new_id()), stored)
            made.append((thread.conversation_id, trace(word)))
    assert (await caller.chat("Hello")).status_code == 200
    async with await psycopg.AsyncConnection.connect(owner_url, autocommit=True) as conn:
        made_ids = [conversation_id for conversation_id, _ in made]

        async def is_read() -> bool:
            return await (await conn.execute(_READ, [made_ids])).fetchone() == (True,)

        await until(is_read)
        day = datetime.now(UTC).date() - timedelta(days=34)
        await conn.execute(
            "INSERT INTO feed_days SELECT %s, max(notification_id) FROM conversation_events"
            " ON CONFLICT (day) DO UPDATE SET position = excluded.position",
            [day],
        )
    return made


async def archived(stack: RunningStack, owner_url: str) -> dict[str, Any]:
    """What the command prints, once the rows of what it archived have left the log."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from ops.main import main; main()", "archive", "--json"),
        env={"AGENTCHAT_RUN_DIR": str(stack.folder.path)},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await running.communicate()
    assert running.returncode == 0
    async with await psycopg.AsyncConnection.connect(owner_url, autocommit=True) as conn:
        await conn.execute("UPDATE archived_conversations SET archived_at = archived_at - interval '1 hour'")
        while await (await conn.execute("SELECT delete_archived_rows(2000)")).fetchone() != (0,):
            pass
    done: dict[str, Any] = json.loads(out)
    return done


async def test_cold_conversations_are_archived_and_used_again(
    stack: RunningStack, caller: Caller, starter: Caller, owner_url: str
) -> None:
    (read, trace_id), (continued, _), (deleted, _) = await cold_threads(stack, caller, owner_url)
    done = await archived(stack, owner_url)
    assert done["conversations"] == 3
    folder = stack.folder.archive
    assert len(list(folder.iterdir())) == 1
    path = f"/v1/conversations/{read}"
    assert (await starter.get(f"{path}/messages")).status_code == 404
    assert [each["content"][:6] for each in await caller.messages(read)] == ["Is it ", "It is,"]
    stream = await caller.get(f"/v1/chat/{trace_id}/events")
    assert (stream.status_code, '"type":"done"' in stream.text) == (200, True)
    answer = await caller.chat("And now?", conversation_id=continued)
    assert (answer.status_code, answer.json()["conversation_id"]) == (200, continued)
    assert len(await caller.messages(continued)) == 4
    assert (await caller.delete(deleted)).status_code == 204
    assert (await caller.get(f"/v1/conversations/{deleted}")).status_code == 404

    async def is_empty() -> bool:
        return not list(folder.iterdir())

    await until(is_empty)  # none of them is in its file any more
