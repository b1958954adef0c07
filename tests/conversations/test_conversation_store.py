"""Appends at a version, on a real Postgres."""

import asyncio
import contextlib
import threading
from typing import cast

import psycopg
import pytest
from eventsourcing.postgres import PostgresApplicationRecorder
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.ids import make_id
from agentchat.conversations.aggregate.conversation import Conversation, evolve_all
from agentchat.conversations.errors import UnstorableEvent, VersionConflict
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.conversation_cache import Cache
from agentchat.conversations.event_store.conversation_store import ConversationStore, open_store
from agentchat.conversations.event_store.event_log import FOLDED_ON_THE_LOOP, Log
from agentchat.runtime.postgres import DatabaseUnavailable, Pool
from tests.conversations.given import (
    ACCOUNT,
    begin,
    build_answer,
    build_conversation_started,
    build_delta,
    build_described,
    build_user_message,
    turn,
)
from tests.conversations.library import open_library_datastore


def build_new_conversation() -> Conversation:
    return Conversation(conversation_id=make_id())


async def test_of_five_that_append_at_one_version_one_wins(migrated_database_url: str) -> None:
    begun = build_new_conversation()
    async with contextlib.AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_store(migrated_database_url)) for _ in range(5)]
        begun = await stores[0].append(begun, [build_conversation_started()])
        outcomes = await asyncio.gather(
            *(each.append(begun, [build_user_message(f"w{place}")]) for place, each in enumerate(stores)),
            return_exceptions=True,
        )
        won = [outcome for outcome in outcomes if isinstance(outcome, Conversation)]
        lost = [outcome for outcome in outcomes if isinstance(outcome, VersionConflict)]
        assert len(won) == 1
        assert len(lost) == 4
        assert lost[0].expected == 1
        assert await stores[1].load(begun.conversation_id) == won[0]


async def test_an_append_that_conflicts_fails_alone(store: ConversationStore) -> None:
    stale = build_new_conversation()
    await store.append(stale, [build_conversation_started(), build_user_message("a")])
    others = [build_new_conversation() for _ in range(20)]
    appends = [store.append(each, [build_conversation_started()]) for each in others]
    appends.insert(10, store.append(stale, [build_conversation_started(), build_user_message("b")]))
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    assert isinstance(outcomes.pop(10), VersionConflict)
    assert all(isinstance(outcome, Conversation) for outcome in outcomes)


@pytest.mark.parametrize(
    ("topic", "state"),
    [
        ("run_started.v1", b'{"trace_id":"\\u0000"}'),  # no value of the index of traces
        ("message\x00saved", b"{}"),
        ("message_\ud800", b"{}"),  # not even sent
    ],
    ids=["refused by the index", "NUL", "lone surrogate"],
)
async def test_an_append_that_postgres_refuses_fails_alone(
    store: ConversationStore, topic: str, state: bytes
) -> None:
    others = [build_new_conversation() for _ in range(20)]
    appends = [asyncio.ensure_future(store.append(each, [build_conversation_started()])) for each in others]
    poisoned = asyncio.ensure_future(store.append_stored(make_id(), 0, [(topic, state)]))
    appends += [asyncio.ensure_future(store.append(build_new_conversation(), [build_conversation_started()]))]
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    assert [outcome for outcome in outcomes if not isinstance(outcome, Conversation)] == []
    with pytest.raises(UnstorableEvent):
        await poisoned


async def test_the_same_append_again_is_no_conflict(store: ConversationStore) -> None:
    begun = await store.append(build_new_conversation(), [build_conversation_started()])
    once = await store.append(begun, [*begin()])
    later = await store.append(once, build_delta("Hi"))
    assert await store.append(begun, [*begin()]) == once
    assert await store.load(begun.conversation_id) == later


async def test_a_load_sees_what_another_process_appended(
    store: ConversationStore, migrated_database_url: str
) -> None:
    mine = await store.append(build_new_conversation(), [build_conversation_started(), *begin()])
    async with open_store(migrated_database_url) as other:
        theirs = await other.append(
            await other.load(mine.conversation_id), [*build_delta("Hi"), *build_answer("Hi")]
        )
    assert await store.load(mine.conversation_id) == theirs


async def test_a_load_from_the_cache_reads_only_what_is_new(
    store: ConversationStore, migrated_database_url: str
) -> None:
    kept = await store.append(
        build_new_conversation(), [build_conversation_started(), *turn("a", "Hello", "Hi")]
    )
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        await owner.execute(
            "DELETE FROM conversation_events WHERE originator_id = %s", [kept.conversation_id]
        )
    assert await store.load(kept.conversation_id) == kept


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE conversation_events SET state = ''",
        "DELETE FROM conversation_events",
        "TRUNCATE conversation_events",
        "DROP TABLE conversation_events",
        "ALTER TABLE conversation_events ADD COLUMN more text",
        "LOCK TABLE conversation_events IN EXCLUSIVE MODE",
        "SELECT setval('conversation_events_notification_id_seq', 1)",
    ],
)
async def test_services_may_not_change_or_remove_events(migrated_database_url: str, change: str) -> None:
    options = "-c role=agentchat_service"
    async with await psycopg.AsyncConnection.connect(migrated_database_url, options=options) as service:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await service.execute(change.encode())


async def test_the_event_table_is_as_the_library_would_make_it(migrated_database_url: str) -> None:
    """Should a new version of the library want another table, this says so.

    We have three columns more, partial indexes and one of times, and have the table vacuumed after erasures.
    """

    def create() -> None:
        with open_library_datastore(migrated_database_url, "theirs") as datastore:
            with datastore.get_connection() as conn:
                conn.execute("CREATE SCHEMA theirs")
            PostgresApplicationRecorder(datastore, events_table_name="conversation_events").create_table()

    await asyncio.to_thread(create)
    described = [
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = 'conversation_events'"
        " AND column_name NOT IN ('account_id', 'trace_id', 'at') ORDER BY 1",
        r"SELECT regexp_replace(indexdef, '(public|theirs)\.', '') FROM pg_indexes"
        " WHERE schemaname = %s AND tablename = 'conversation_events' AND indexdef NOT LIKE '%% WHERE %%'"
        " AND indexdef NOT LIKE '%% brin %%'"
        " ORDER BY 1",
        "SELECT option FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,"
        " unnest(reloptions) AS option WHERE n.nspname = %s AND c.relname = 'conversation_events'"
        " AND option NOT LIKE 'autovacuum_vacuum_%%' ORDER BY 1",
    ]
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        for query in described:
            ours = await (await owner.execute(query.encode(), ["public"])).fetchall()
            theirs = await (await owner.execute(query.encode(), ["theirs"])).fetchall()
            assert ours
            assert ours == theirs


async def test_a_database_without_tables_is_reported(database_url: str) -> None:
    async with open_store(database_url) as store:
        with pytest.raises(DatabaseUnavailable, match="migrations"):
            await store.append(build_new_conversation(), [build_conversation_started()])


async def test_the_cache_of_states_is_bounded() -> None:
    cache = Cache(max_conversations=2, max_bytes=100)

    def state(of: Conversation, stored_bytes: int, *more: events.Event) -> Conversation:
        return replace(evolve_all(of, more), stored_bytes=stored_bytes)

    first, second, third = (
        state(build_new_conversation(), 10, build_conversation_started()) for _ in range(3)
    )
    cache.put(first)
    cache.put(second)
    assert cache.get(first.conversation_id) == first
    cache.put(third)
    assert cache.get(second.conversation_id) is None
    cache.put(state(third, 100, build_user_message()))
    assert cache.get(first.conversation_id) is None
    cache.put(third)
    assert cache.get(third.conversation_id) != third, "an older state does not replace a newer one"
    cache.put(state(third, 101, *begin()))
    assert cache.get(third.conversation_id) is None


async def test_a_long_conversation_is_read_in_pages(
    store: ConversationStore, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentchat.conversations.event_store.event_log.PAGE_ENTRIES", 3)
    monkeypatch.setattr("agentchat.conversations.event_store.event_log.FOLDED_ON_THE_LOOP", 2)
    facts = [build_conversation_started(), *(each for word in "abcd" for each in turn(word, "Hello", "Hi"))]
    kept = await store.append(build_new_conversation(), facts)
    pages = [page async for page in log.read_pages(kept.conversation_id)]
    assert [entry.event for page in pages for entry in page] == facts
    assert max(map(len, pages)) == 3
    assert await log.load_conversation(kept.conversation_id) == kept
    assert kept.stored_bytes == sum(len(entry.state) for page in pages for entry in page)


async def test_pages_end_where_their_bytes_do(
    store: ConversationStore, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = [build_conversation_started(), *(each for word in "ab" for each in turn(word, "Hello", "Hi"))]
    kept = await store.append(build_new_conversation(), facts)
    monkeypatch.setattr("agentchat.conversations.event_store.event_log.PAGE_BYTES", 1)
    pages = [page async for page in log.read_pages(kept.conversation_id)]
    assert [len(page) for page in pages] == [1] * len(facts)
    assert [row.version for row in await log.read_rows(kept.conversation_id, 2, 5)] == [3, 4, 5]


async def test_many_events_are_decoded_in_a_thread(
    store: ConversationStore, log: Log, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def upcast(state: mapper.JSON) -> mapper.JSON:
        threads.append(threading.get_ident())
        return state | {"type": new}

    (new, _), *_ = stored = mapper.encode_pairs(build_described(FOLDED_ON_THE_LOOP))
    old = [("a_description.v1", state.replace(new.encode(), b"a_description.v1")) for _, state in stored]
    monkeypatch.setitem(cast(dict[str, mapper.Upcast], mapper.UPCASTS), "a_description.v1", upcast)
    kept = await store.append(build_new_conversation(), [build_conversation_started(), *begin()])
    await store.append_stored(kept.conversation_id, kept.version, [*old, ("delta.v1", b"{")])
    readable = await log.load_readable_conversation(kept.conversation_id)
    newest = await log.load_newest_run(kept.conversation_id)
    assert readable.version == newest.version == kept.version + FOLDED_ON_THE_LOOP + 1
    assert readable.account_id == newest.account_id == ACCOUNT
    assert readable.title == newest.title == f"title {FOLDED_ON_THE_LOOP - 1}"
    assert len(threads) == 2 * FOLDED_ON_THE_LOOP
    assert threading.get_ident() not in threads
