"""Read models: what events make of them, that rebuilt equals live, and that no event blocks the others."""

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.events import ConversationDescribed, Event
from agentchat.contracts.examples import FILE
from agentchat.contracts.ids import make_id
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.projections import conversations_table, messages_table, runs_table
from agentchat.conversations.projections.projection import LoggedFact, Statement
from agentchat.conversations.projections.read_model_follower import Follower
from agentchat.conversations.queries.conversation_filters import (
    ConversationFilter,
    list_account_conversations,
)
from agentchat.conversations.queries.read_thread import load_summary
from agentchat.gateway.api.conversation_rows import build_conversation_row
from tests.conversations import read_models
from tests.conversations.given import (
    ACCOUNT,
    ERASED,
    LATER,
    begin,
    build_answer,
    build_conversation_started,
    build_delta,
    trace,
    turn,
)
from tests.conversations.read_models import Storage

pytestmark = pytest.mark.usefixtures("empty_database")

ALL = (conversations_table.PROJECTION, messages_table.PROJECTION, runs_table.PROJECTION)
TABLES = [each.name for each in ALL]


async def read_contents(storage: Storage) -> list[list[tuple[Any, ...]]]:
    return [await storage.rows(f"SELECT * FROM {table} ORDER BY 1") for table in TABLES]


async def append_told(store: ConversationStore, *stored: Event, name: str | None = None) -> str:
    conversation_id = name or make_id()
    await store.append(Conversation(conversation_id=conversation_id), stored)
    return conversation_id


def append_described(word: str, title: str | None, **metadata: str) -> ConversationDescribed:
    return ConversationDescribed(trace_id=trace(word), at=LATER, title=title, metadata=metadata)


@pytest.mark.parametrize("batch", [1, 500])
async def test_threads_are_listed_with_what_was_set_and_found_by_it(storage: Storage, batch: int) -> None:
    thread = turn("a", "Hello", "Hi")
    first = await append_told(
        storage.store, build_conversation_started(), *thread, append_described("d", "Old", customer="A")
    )
    second = await append_told(
        storage.store,
        build_conversation_started(),
        append_described("d", "Two", customer="A", open="yes"),
        *thread,
    )
    third = await append_told(
        storage.store,
        build_conversation_started(),
        *thread,
        append_described("d", "Two"),
        append_described("e", None),
    )
    fourth = await append_told(
        storage.store,
        replace(build_conversation_started(), account_id="another"),
        append_described("d", None, customer="A"),
    )
    await storage.store.append(await storage.store.load(first), [append_described("f", "One", customer="A")])
    await storage.follow(ALL, batch=batch)

    async def find(account_id: str = ACCOUNT, **metadata: str) -> list[str]:
        listed = await list_account_conversations(
            storage.pool, account_id, limit=10, matching=ConversationFilter(metadata=metadata)
        )
        return [row.conversation_id for row in listed]

    listed = {
        row.conversation_id: row for row in await list_account_conversations(storage.pool, ACCOUNT, limit=10)
    }
    assert {each: (row.title, row.metadata) for each, row in listed.items()} == {
        first: ("One", {"customer": "A"}),
        second: ("Two", {"customer": "A", "open": "yes"}),
        third: ("Hello", {}),
    }
    assert {row.updated_at for row in listed.values()} == {LATER}
    assert await find(customer="A") == [second, first]
    assert await find(customer="A", open="yes") == [second]
    assert await find(customer="B") == await find(Customer="A") == []
    assert await find("another", customer="A") == [fourth]
    await storage.store.append(await storage.store.load(second), [ERASED])
    assert await find(customer="A") == [first], "before the read model has heard of it"
    await storage.follow(ALL, batch=batch)
    assert await storage.rows("SELECT conversation_id FROM conversations WHERE metadata ? 'open'") == []


@pytest.mark.parametrize("batch", [1, 100])
async def test_updated_at_is_that_of_the_newest_message(storage: Storage, batch: int) -> None:
    """A text can have a later time than the message that ends its run, if two processes wrote them."""
    await append_told(storage.store, build_conversation_started(), *begin("a"))
    await storage.follow(batch=batch)
    [(conversation_id,)] = await storage.rows("SELECT conversation_id FROM conversations")
    text, _ = build_delta("Hi", "a")
    answer = (replace(text, at="2026-11-21T09:31:00.000020Z"), *build_answer("Hi", "a"))
    await storage.store.append(await storage.store.load(conversation_id), answer)
    await storage.follow(batch=batch)
    assert await storage.rows("SELECT updated_at FROM conversations") == [(LATER,)]


@pytest.mark.parametrize("batch", [1, 100])
async def test_files_of_a_conversation_are_sorted_and_once(storage: Storage, batch: int) -> None:
    """They come in another order, and one comes again in a later run."""
    files = {name: replace(FILE, file_id=name) for name in "abc"}
    await append_told(
        storage.store,
        build_conversation_started(),
        *begin("a", attachments=(files["c"], files["a"])),
        *build_answer("Hi", "a"),
        *begin("b", attachments=(files["b"], files["c"])),
    )
    await storage.follow(batch=batch)
    assert await storage.rows("SELECT file_ids FROM conversations") == [(["a", "b", "c"],)]


async def test_two_followers_apply_each_event_once(storage: Storage) -> None:
    one, two = Follower(storage.pool, storage.log, ALL), Follower(storage.pool, storage.log, ALL)
    for number in range(6):
        await append_told(storage.store, build_conversation_started(), *turn(f"a{number}", "Hello", "Hi"))
        await (one if number % 2 else two).step()
    while await one.step() | await two.step():
        pass
    listed = await list_account_conversations(storage.pool, ACCOUNT, limit=10)
    assert [row.message_count for row in listed] == [2] * 6


async def test_unstorable_event_is_parked_and_the_others_continue(storage: Storage) -> None:
    await append_told(storage.store, build_conversation_started(), *turn("a", "Hello", "Hi"))
    poisoned = await append_told(storage.store, build_conversation_started(), *turn("b", "No\x00thing", "Hi"))
    await append_told(storage.store, build_conversation_started(), *turn("c", "Hello", "Hi"))
    await storage.follow(ALL)
    parked = await storage.rows("SELECT projection, conversation_id, reason FROM parked_events ORDER BY 1")
    assert [(name, conversation_id) for name, conversation_id, _ in parked] == [
        ("conversations", poisoned),
        ("messages", poisoned),
    ]
    assert "Unicode escape" in parked[0][2]
    counts = await storage.rows("SELECT message_count FROM conversations ORDER BY conversation_id")
    assert counts == [(2,), (1,), (2,)]


@pytest.mark.parametrize("topic", ["unheard_of.v9", "conversation_started.v1"])
async def test_an_event_that_cannot_be_read_is_parked_and_the_others_go_on(
    storage: Storage, topic: str
) -> None:
    poisoned = await append_told(storage.store, build_conversation_started())
    async with await psycopg.AsyncConnection.connect(storage.url) as owner:
        await owner.execute(
            "INSERT INTO conversation_events (originator_id, originator_version, topic, state)"
            ' VALUES (%s, 2, %s, \'{"type":"unheard_of.v9"}\')',
            [poisoned, topic],
        )
    after = await append_told(storage.store, build_conversation_started())
    await storage.follow(ALL)
    parked = await storage.rows("SELECT projection, conversation_id FROM parked_events ORDER BY 1")
    # An event that a read model has no use for does not have to be read for it.
    takers = ["conversations"] if topic == "conversation_started.v1" else sorted(TABLES)
    assert parked == [(name, poisoned) for name in takers]
    assert len(await list_account_conversations(storage.pool, ACCOUNT, limit=10)) == 2
    assert after


async def test_a_batch_that_fails_leaves_rows_and_position_as_they_were(storage: Storage) -> None:
    def build_changes(facts: Sequence[LoggedFact]) -> list[Statement]:
        return [*conversations_table.PROJECTION.changes(facts), ("SELECT no_such_function(%s)", ("a",))]

    await append_told(storage.store, build_conversation_started(), *turn("a", "Hello", "Hi"))
    with pytest.raises(psycopg.errors.UndefinedFunction):
        await read_models.follow(
            storage.pool,
            storage.log,
            [messages_table.PROJECTION, replace(conversations_table.PROJECTION, changes=build_changes)],
        )
    assert await read_contents(storage) == [[], [], []]
    await storage.follow(ALL)
    assert [len(table) for table in await read_contents(storage)] == [1, 2, 1]


@pytest.mark.parametrize("batch", [1, 100])
async def test_fork_is_not_updated_before_it_was_created(storage: Storage, batch: int) -> None:
    """Its messages are older than it is."""
    created = "2026-11-30T09:00:00.000000Z"
    fork = await storage.store.append(
        Conversation(conversation_id=make_id()),
        [
            events.ConversationStarted(trace_id=trace("fork"), at=created, account_id=ACCOUNT),
            events.ConversationForked(trace_id=trace("fork"), at=created, source_id="s", source_version=6),
            *(replace(each, inherited_from=trace()) for each in turn("a", "Hello", "Hi")),
        ],
    )
    await storage.follow(batch=batch)
    copies = await storage.rows("SELECT is_copy FROM analytics.messages")
    assert copies == [(True,), (True,)]
    [row] = await list_account_conversations(storage.pool, ACCOUNT, limit=10)
    assert (row.conversation_id, row.created_at, row.updated_at) == (fork.conversation_id, created, created)
    summary = await load_summary(storage.pool, fork.conversation_id, fork.version)
    assert summary is not None
    shown = build_conversation_row(fork.conversation_id, summary)
    assert (shown.created_at, shown.updated_at) == (created, created)
