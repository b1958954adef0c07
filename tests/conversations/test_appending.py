"""The statement that stores events, held to what the library's recorder and the single calls do."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import psycopg
import pytest
from eventsourcing.persistence import DataError, IntegrityError, PersistenceError, StoredEvent

from contracts.ids import new_id
from conversations.errors import UnstorableEvent, VersionConflict
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore
from tests.conversations.library import library_recorder
from tests.conversations.turns import LOCK_CONVERSATION

_ERRORS: dict[type[PersistenceError], type[Exception]] = {
    IntegrityError: VersionConflict,
    DataError: UnstorableEvent,
}


@pytest.mark.parametrize(
    ("before", "behind", "topics"),
    [
        (0, 0, ["a.v1", "b.v1", "c.v1"]),
        (2, 2, ["a.v1"]),
        (2, 1, ["a.v1", "b.v1"]),  # at a version that is taken
        (2, 0, ["a.v1", "b.v1", "c.v1"]),
        (0, 3, ["a.v1", "b.v1"]),  # with a gap, which nothing in the table minds
        (0, 0, ["run_started.v1"]),  # its state is no value of the index of traces
        (0, 0, ["a\x00"]),
    ],
)
async def test_rows_and_errors_are_those_of_the_library(
    migrated_database_url: str,
    store: ConversationStore,
    log: Log,
    before: int,
    behind: int,
    topics: list[str],
) -> None:
    state = b'{"trace_id":"\\u0000"}'

    def by_the_library(conversation_id: str) -> None:
        with library_recorder(migrated_database_url) as recorder:
            recorder.insert_events(
                [StoredEvent(conversation_id, each + 1, "before.v1", b"{}") for each in range(before)]
            )
            recorder.insert_events(
                [
                    StoredEvent(conversation_id, each, topic, state)
                    for each, topic in enumerate(topics, start=behind + 1)
                ]
            )

    async def by_us(conversation_id: str) -> None:
        if before:
            await store.append_stored(conversation_id, 0, [("before.v1", b"{}")] * before)
        await store.append_stored(conversation_id, behind, [(topic, state) for topic in topics])

    theirs, ours = new_id(), new_id()
    their_error = await _raised(asyncio.to_thread(by_the_library, theirs))
    our_error = await _raised(by_us(ours))
    assert our_error is (their_error and _ERRORS[their_error])
    their_rows, our_rows = await log.rows(theirs), await log.rows(ours)
    assert [(row.version, row.topic, row.state) for row in our_rows] == [
        (row.version, row.topic, row.state) for row in their_rows
    ]
    assert [row.position for row in our_rows] == sorted(row.position for row in our_rows)


async def test_the_librarys_channel_is_notified(migrated_database_url: str, store: ConversationStore) -> None:
    def by_the_library() -> str:
        with library_recorder(migrated_database_url) as recorder:
            recorder.insert_events([StoredEvent(new_id(), 1, "a.v1", b"{}")])
            return recorder.channel_name

    async with await psycopg.AsyncConnection.connect(migrated_database_url, autocommit=True) as heard:
        channel = await asyncio.to_thread(by_the_library)
        await heard.execute(f"LISTEN {channel}".encode())
        await store.append_stored(new_id(), 0, [("a.v1", b"{}")])
        notices = [(each.channel, each.payload) async for each in heard.notifies(timeout=10, stop_after=1)]
    assert notices == [(channel, "")]


async def _raised(call: Coroutine[Any, Any, None]) -> type[Any] | None:
    try:
        await call
    except (PersistenceError, UnstorableEvent, VersionConflict) as error:
        return type(error)
    return None


async def test_a_small_append_waits_for_one_large_one_at_most(
    migrated_database_url: str, store: ConversationStore
) -> None:
    """All wait behind one that is under way. The positions tell in which order they were stored."""
    large, small = b'{"text":"' + b"x" * 900_000 + b'"}', b"{}"
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as other:
        first = new_id()
        await other.execute(LOCK_CONVERSATION, [first])
        appends = [asyncio.create_task(store.append_stored(first, 0, [("first.v1", small)]))]
        await _until_one_waits_for_the_lock(other)
        appends += [
            asyncio.create_task(store.append_stored(new_id(), 0, [(topic, state)]))
            for topic, state in [("large.v1", large), ("small.v1", small)] * 4
        ]
        await asyncio.sleep(0)
        await other.rollback()
        await asyncio.gather(*appends)
        rows = await (await other.execute(_IN_ORDER)).fetchall()
    assert [topic for topic, _ in rows] == ["first.v1", *["small.v1"] * 4, *["large.v1"] * 4]
    assert len({transaction for _, transaction in rows}) == 6, "the small ones went together, the large alone"


async def _until_one_waits_for_the_lock(conn: psycopg.AsyncConnection[Any]) -> None:
    while await (await conn.execute(_WAITS)).fetchone() != (True,):  # noqa: ASYNC110 - a server's state
        await asyncio.sleep(0.01)


_WAITS = """
SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database ON database = pg_database.oid
                WHERE locktype = 'advisory' AND NOT granted AND datname = current_database())
"""
_IN_ORDER = """
SELECT topic, xmin::text FROM conversation_events
 WHERE topic IN ('first.v1', 'small.v1', 'large.v1') ORDER BY notification_id
"""
