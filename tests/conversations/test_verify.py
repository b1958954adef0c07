"""Read models proved against the log: what differs is named, and what could not be taken is told."""

import asyncio
import json

import pytest
from msgspec.structs import replace

from agentchat.conversations.projections import conversations_table, messages_table
from agentchat.runtime.postgres import acquire_connection
from tests.conversations.given import turn
from tests.conversations.read_models import TABLES, Storage, replay

pytestmark = pytest.mark.usefixtures("empty_database")


@pytest.mark.parametrize(
    ("change", "column", "live", "rebuilt"),
    [
        ("UPDATE messages SET content = 'Hi' WHERE message_id = '{}'", "content", "Hi", "Hello"),
        ("UPDATE messages SET token_count = 1 WHERE message_id = '{}'", "token_count", "1", None),
        ("DELETE FROM messages WHERE message_id = '{}'", None, "(no such row)", "(a row)"),
        (
            "INSERT INTO messages SELECT '{}-', conversation_id, account_id, role, content, token_count,"
            " created_at, trace_id, position FROM messages LIMIT 1",
            None,
            "(a row)",
            "(no such row)",
        ),
    ],
)
async def test_the_first_difference_is_named(
    storage: Storage, change: str, column: str | None, live: str, rebuilt: str | None
) -> None:
    await storage.store_conversations(3)
    await storage.follow()
    ((changed,),) = await storage.rows(
        "SELECT message_id FROM messages WHERE content = 'Hello' ORDER BY position OFFSET 1 LIMIT 1"
    )
    async with acquire_connection(storage.pool) as conn:
        await conn.execute(change.format(changed).encode())
    one, other = await storage.verify([messages_table.PROJECTION, conversations_table.PROJECTION])
    assert other.ok
    assert one.difference is not None
    key = changed + "-" * change.startswith("INSERT")
    assert one.difference.table == "messages"
    assert one.difference.key == {"message_id": key}
    assert (one.difference.column, one.difference.live) == (column, live)
    assert one.difference.rebuilt == rebuilt


async def test_a_column_too_many_is_named(storage: Storage) -> None:
    narrower = messages_table.PROJECTION.tables.replace("    token_count integer,\n", "")
    assert narrower != messages_table.PROJECTION.tables
    await storage.store_conversations(1)
    await storage.follow()
    (one,) = await storage.verify([replace(messages_table.PROJECTION, tables=narrower, takes=frozenset())])
    assert one.difference is not None
    assert (one.difference.column, one.difference.live) == ("token_count", "integer")
    assert one.difference.rebuilt is None


async def test_parked_events_are_reported(storage: Storage) -> None:
    poisoned = await storage.add(*turn("poisoned", "No\x00thing", "Hi"))
    await storage.store_conversations(1)
    await storage.follow()
    for _ in range(2):
        (one,) = await storage.verify([messages_table.PROJECTION])
        assert one.ok
        found = [(each.live, each.conversation_id) for each in one.parked]
        assert found == [(True, poisoned.conversation_id), (False, poisoned.conversation_id)]
        code, _, said = await asyncio.to_thread(replay, storage.url, "rebuild", "messages")
        assert code == 0
        assert f"of conversation {poisoned.conversation_id}: " in said
        assert "thing" not in said
    code, out, said = await asyncio.to_thread(replay, storage.url, "verify", "messages", "--json")
    assert code == 0
    assert json.loads(out)[0]["difference"] is None
    assert said.count("messages: ") == 2


async def test_the_commands(storage: Storage) -> None:
    async def run_command(*arguments: str) -> tuple[int, str, str]:
        return await asyncio.to_thread(replay, storage.url, *arguments)

    await storage.store_conversations(2)
    code, _, said = await run_command("verify", "tools")
    assert code == 1
    assert "agentchat replay rebuild tools" in said
    code, out, said = await run_command("rebuild")
    assert code == 0
    assert said == ""
    assert f"position {await storage.log.read_head():,}" in out
    assert (await run_command("verify"))[0] == 0
    async with acquire_connection(storage.pool) as conn:
        await conn.execute("UPDATE runs SET rounds = 40 WHERE state = 'failed'")
    code, out, said = await run_command("verify", "runs", "tools")
    assert code == 1
    assert "differs" in out
    assert "first difference: runs, trace_id=" in said
    assert "column rounds: live '40', rebuilt '1'" in said


@pytest.mark.parametrize("command", ["rebuild", "verify"])
def test_a_read_model_that_there_is_not_is_refused(migrated_database_url: str, command: str) -> None:
    code, out, said = replay(migrated_database_url, command, "messages", "nothing")
    assert code == 2
    assert out == ""
    assert said == f"unknown read model 'nothing'; choose from {', '.join(TABLES)}"


CHANGES = {
    "conversations": "UPDATE conversations SET title = 'x' WHERE conversation_id = %s",
    "messages": "UPDATE messages SET content = 'x' WHERE conversation_id = %s AND role = 'user'",
    "runs": "UPDATE runs SET rounds = 40 WHERE conversation_id = %s",
    "tools": "DELETE FROM tools WHERE conversation_id = %s",
    "approvals": "DELETE FROM approvals WHERE conversation_id = %s",
    "feedback": "UPDATE feedback SET score = 0 WHERE conversation_id = %s",
    "search": "DELETE FROM search WHERE conversation_id = %s",
}


async def test_one_conversation_is_verified_alone(storage: Storage) -> None:
    changed, intact = await storage.store_conversations(2)
    await storage.follow()
    async with acquire_connection(storage.pool) as conn:
        for change in CHANGES.values():
            await conn.execute(change.encode(), [changed.conversation_id])

    async def verify(*arguments: str) -> tuple[int, dict[str, object]]:
        code, out, _ = await asyncio.to_thread(replay, storage.url, "verify", *arguments, "--json")
        return code, {each["name"]: each["difference"] for each in json.loads(out)}

    code, differences = await verify(changed.conversation_id.upper())
    assert code == 1
    assert {name for name, difference in differences.items() if difference} == set(TABLES)
    assert await verify(intact.conversation_id) == (0, dict.fromkeys(TABLES))
    assert (await verify(changed.conversation_id, "tools"))[1].keys() == {"tools"}


async def test_unknown_conversations_cannot_be_verified(storage: Storage) -> None:
    (known,) = await storage.store_conversations(1)
    await storage.follow()
    for words, reason in (
        (["01990000-0000-7000-8000-000000000000"], "no such conversation"),
        ([known.conversation_id, "01990000-0000-7000-8000-000000000000"], "one conversation at a time"),
    ):
        code, out, said = await asyncio.to_thread(replay, storage.url, "verify", *words)
        assert (code, out) == (2, "")
        assert reason in said
