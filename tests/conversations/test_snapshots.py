"""A long conversation is loaded from its newest snapshot."""

import zlib
from dataclasses import dataclass

import psycopg
import pytest

from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation, fold
from conversations.erasures import due_erasures, forget_rows
from conversations.event_store import snapshots
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore, open_store
from runtime.postgres import Pool
from tests.conversations import recorded
from tests.conversations.given import ERASED, began, described, make_unreadable, turn


@dataclass
class Table:
    """The snapshots, as whoever owns the database."""

    url: str

    def versions(self, conversation_id: str) -> list[int]:
        with psycopg.connect(self.url) as owner:
            rows = owner.execute(
                "SELECT originator_version FROM conversation_snapshots WHERE originator_id = %s ORDER BY 1",
                [conversation_id],
            )
            return [version for (version,) in rows]

    def change(self, statement: str, *values: object) -> None:
        with psycopg.connect(self.url) as owner:
            owner.execute(statement.encode(), values)


@pytest.fixture
def table(migrated_database_url: str) -> Table:
    return Table(migrated_database_url)


async def long_one(store: ConversationStore, number: int = 1200) -> Conversation:
    return await store.append(
        Conversation(conversation_id=new_id()), [began(), *turn("a", "Hello", "Hi"), *described(number)]
    )


@pytest.mark.parametrize("name", recorded.WHOLE)
def test_a_state_is_the_same_after_it_was_stored(name: str) -> None:
    carried = recorded.carried(name)
    conversation = fold(carried.conversation_id, recorded.facts(carried))
    assert snapshots.decode(snapshots.encode(conversation)) == conversation


def test_no_line_of_a_stored_state_has_more_than_one_run_or_1000_descriptions() -> None:
    runs = [event for number in range(50) for event in turn(f"{number:032}", "Hello", "Hi " * 1000)]
    conversation = fold("c", [began(), *runs, *described(2500)])
    lines = zlib.decompress(snapshots.encode(conversation)).split(b"\n")
    assert len(lines) == 1 + 50 + 3
    assert max(map(len, lines)) < 100_000
    assert snapshots.decode(snapshots.encode(conversation)) == conversation


async def test_a_load_reads_the_snapshot_and_what_came_after_it(
    store: ConversationStore, table: Table, migrated_database_url: str
) -> None:
    conversation = await long_one(store)
    await store.snapshot_taken()
    conversation = await store.append(conversation, turn("b", "And now?", "Now too."))
    assert table.versions(conversation.id) == [conversation.version - 6]
    make_unreadable(migrated_database_url, conversation.id, conversation.version - 6)
    async with open_store(migrated_database_url) as other:
        assert await other.load(conversation.id) == conversation


async def test_a_load_takes_the_snapshot_that_is_missing(
    store: ConversationStore, table: Table, migrated_database_url: str
) -> None:
    conversation = await long_one(store)
    await store.snapshot_taken()
    table.change("DELETE FROM conversation_snapshots WHERE originator_id = %s", conversation.id)
    async with open_store(migrated_database_url) as other:
        assert await other.load(conversation.id) == conversation
    assert table.versions(conversation.id) == [conversation.version]


async def test_short_conversations_have_none(store: ConversationStore, table: Table) -> None:
    conversation = await long_one(store, 900)
    await store.snapshot_taken()
    assert table.versions(conversation.id) == []


async def test_the_next_one_comes_after_a_tenth_more_and_replaces_it(
    store: ConversationStore, table: Table
) -> None:
    conversation = await long_one(store, 12_000)
    await store.snapshot_taken()
    first = conversation.version
    conversation = await store.append(conversation, described(1100))
    await store.snapshot_taken()
    assert table.versions(conversation.id) == [first]
    conversation = await store.append(conversation, described(600))
    await store.snapshot_taken()
    assert table.versions(conversation.id) == [conversation.version]


async def test_one_of_another_layout_is_not_read(store: ConversationStore, table: Table, log: Log) -> None:
    conversation = await long_one(store)
    await store.snapshot_taken()
    table.change(
        "UPDATE conversation_snapshots SET topic = topic || '0', state = '{}' WHERE originator_id = %s",
        conversation.id,
    )
    assert await log.snapshots.newest(conversation.id) is None
    assert await log.conversation(conversation.id) == conversation


async def test_a_failed_snapshot_fails_no_append(store: ConversationStore, table: Table) -> None:
    table.change("ALTER TABLE conversation_snapshots RENAME TO gone")
    try:
        conversation = await long_one(store)
        await store.snapshot_taken()
    finally:
        table.change("ALTER TABLE gone RENAME TO conversation_snapshots")
    conversation = await store.append(conversation, turn("b", "And now?", "Now too."))
    await store.snapshot_taken()
    assert table.versions(conversation.id) == [conversation.version]


async def test_an_erasure_takes_it_along_and_none_comes_after(
    store: ConversationStore, table: Table, pool: Pool, log: Log
) -> None:
    conversation = await long_one(store)
    await store.snapshot_taken()
    await store.append(conversation, [ERASED])
    assert table.versions(conversation.id) == []
    await log.snapshots.put(conversation)
    assert table.versions(conversation.id) == []
    row = (conversation.id, 5, snapshots.topic(), snapshots.encode(conversation))
    table.change("INSERT INTO conversation_snapshots VALUES (%s, %s, %s, %s)", *row)
    for erasure in await due_erasures(pool, limit=100):
        await forget_rows(pool, erasure)
    assert table.versions(conversation.id) == []
