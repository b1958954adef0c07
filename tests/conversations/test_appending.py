"""The statement that stores events."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from agentchat.contracts.ids import make_id
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.errors import UnstorableEvent, VersionConflict
from agentchat.conversations.event_store import append_writer
from agentchat.conversations.event_store.append_statement import LeaseChange
from agentchat.conversations.event_store.conversation_store import ConversationStore, open_store
from agentchat.conversations.event_store.event_log import Log
from agentchat.runtime.postgres import DatabaseUnavailable, Pool, acquire_connection
from tests.conversations.given import ACCOUNT, AT, build_conversation_started, build_user_message, trace
from tests.conversations.turns import LOCK_CONVERSATION

STATE = b'{"trace_id":"trace","at":"2026-11-28T04:30:00.000000Z"}'


@pytest.mark.parametrize(
    ("before", "expected", "topics", "error"),
    [
        (0, 0, ["a.v1", "b.v1", "c.v1"], None),
        (2, 2, ["a.v1"], None),
        (2, 1, ["a.v1", "b.v1"], VersionConflict),
        (2, 0, ["a.v1", "b.v1", "c.v1"], VersionConflict),
        (0, 3, ["a.v1", "b.v1"], VersionConflict),  # a gap
        (0, 0, ["a\x00"], UnstorableEvent),
    ],
)
async def test_events_are_stored_after_the_expected_version(
    store: ConversationStore,
    log: Log,
    before: int,
    expected: int,
    topics: list[str],
    error: type[Exception] | None,
) -> None:
    conversation_id = make_id()
    if before:
        await store.append_stored(conversation_id, 0, [("before.v1", b"{}")] * before)
    append = store.append_stored(conversation_id, expected, [(topic, STATE) for topic in topics])
    if error is None:
        await append
    else:
        with pytest.raises(error):
            await append
    rows = await log.read_rows(conversation_id)
    stored = [] if error else topics
    assert [(row.version, row.topic) for row in rows] == list(
        enumerate([*["before.v1"] * before, *stored], start=1)
    )
    assert [row.position for row in rows] == sorted(row.position for row in rows)


async def test_account_trace_and_time_are_columns(store: ConversationStore, pool: Pool) -> None:
    conversation = await store.append(Conversation(conversation_id=make_id()), [build_conversation_started()])
    await store.append(conversation, [build_user_message("a")])
    await store.append_stored(conversation.conversation_id, 2, [("unheard_of.v9", STATE), ("bad.v1", b"{")])
    async with acquire_connection(pool) as conn:
        query = (
            "SELECT account_id, trace_id, at FROM conversation_events WHERE originator_id = %s ORDER BY 1, 2"
        )
        rows = await (await conn.execute(query, [conversation.conversation_id])).fetchall()
    at = datetime.fromisoformat(AT)
    assert sorted(rows, key=str) == sorted(
        [
            (ACCOUNT, trace(), at),
            (ACCOUNT, trace("a"), at),
            (ACCOUNT, "trace", datetime(2026, 11, 28, 4, 30, tzinfo=UTC)),
            (ACCOUNT, None, None),
        ],
        key=str,
    )


async def test_followers_of_the_log_are_notified(
    migrated_database_url: str, store: ConversationStore
) -> None:
    async with await psycopg.AsyncConnection.connect(migrated_database_url, autocommit=True) as heard:
        await heard.execute("LISTEN conversation_events")
        await store.append_stored(make_id(), 0, [("a.v1", b"{}")])
        notices = [(each.channel, each.payload) async for each in heard.notifies(timeout=10, stop_after=1)]
    assert notices == [("conversation_events", "")]


async def test_an_append_is_announced_after_its_caller_has_left(
    migrated_database_url: str, store: ConversationStore, log: Log
) -> None:
    gone, next_one = make_id(), make_id()
    async with (
        await psycopg.AsyncConnection.connect(migrated_database_url, autocommit=True) as heard,
        await psycopg.AsyncConnection.connect(migrated_database_url) as other,
    ):
        await heard.execute("LISTEN conversation_events")
        await other.execute("LOCK TABLE conversation_events IN SHARE MODE")
        append = asyncio.create_task(store.append_stored(gone, 0, [("a.v1", b"{}")]))
        await _wait_for_a_waiting_lock(other)
        append.cancel()
        await asyncio.wait([append])
        await other.rollback()
        assert [each async for each in heard.notifies(timeout=10, stop_after=1)]
        await store.append_stored(next_one, 0, [("a.v1", b"{}")])
        async with asyncio.timeout(10):
            while not await log.read_rows(gone):  # noqa: ASYNC110 - the server ends it by itself
                await asyncio.sleep(0.01)
    assert append.cancelled()
    assert len(await log.read_rows(next_one)) == 1


async def test_a_small_append_waits_for_one_large_one_at_most(
    migrated_database_url: str, store: ConversationStore
) -> None:
    """All wait behind one that is under way. The positions tell in which order they were stored."""
    large, small = b'{"text":"' + b"x" * 900_000 + b'"}', b"{}"
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as other:
        await other.execute("LOCK TABLE conversation_events IN SHARE MODE")
        appends = [asyncio.create_task(store.append_stored(make_id(), 0, [("first.v1", small)]))]
        await _wait_for_a_waiting_lock(other)
        appends += [
            asyncio.create_task(store.append_stored(make_id(), 0, [(topic, state)]))
            for topic, state in [("large.v1", large), ("small.v1", small)] * 4
        ]
        await asyncio.sleep(0)
        await other.rollback()
        await asyncio.gather(*appends)
        rows = await (await other.execute(_IN_ORDER)).fetchall()
    assert [topic for topic, _ in rows] == ["first.v1", *["small.v1"] * 4, *["large.v1"] * 4]
    assert len({transaction for _, transaction in rows}) == 6, "the small ones went together, the large alone"


@pytest.mark.parametrize(
    "held",
    [
        pytest.param("the conversation's lock", marks=pytest.mark.slow),
        "its slot's lock",
        pytest.param("its lease", marks=pytest.mark.slow),
    ],
)
async def test_only_the_append_that_waits_fails(
    migrated_database_url: str, log: Log, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_writer, "APPEND_SECONDS", 2.5)
    waiting = make_id()
    lease = LeaseChange(trace(waiting), "worker")
    async with (
        open_store(migrated_database_url) as store,
        await psycopg.AsyncConnection.connect(migrated_database_url) as other,
    ):
        if held == "its lease":
            await other.execute(
                "INSERT INTO run_leases VALUES (%s, 1, 'worker', clock_timestamp())", [lease.trace_id]
            )
            await other.commit()
            await other.execute("SELECT FROM run_leases WHERE trace_id = %s FOR UPDATE", [lease.trace_id])
        else:
            locked = waiting if held == "the conversation's lock" else await _find_neighbour(other, waiting)
            await other.execute(LOCK_CONVERSATION, [locked])
        free = [make_id() for _ in range(20)]
        blocked = asyncio.create_task(
            store.append(Conversation(conversation_id=waiting), [build_conversation_started()], release=lease)
        )
        async with asyncio.timeout(2.4):
            await asyncio.gather(*(store.append_stored(each, 0, [("a.v1", STATE)]) for each in free))
        with pytest.raises(DatabaseUnavailable):
            await blocked
        assert [len(await log.read_rows(each)) for each in (waiting, *free)] == [0, *[1] * 20]
        await other.rollback()
        again = await store.append(Conversation(conversation_id=waiting), [build_conversation_started()])
        assert again.version == 1


@pytest.mark.parametrize("pause", [0.0, 0.01, 0.05])
async def test_closing_during_a_call_stores_and_notifies(
    migrated_database_url: str, log: Log, pause: float
) -> None:
    conversation_id = make_id()
    async with await psycopg.AsyncConnection.connect(migrated_database_url, autocommit=True) as heard:
        await heard.execute("LISTEN conversation_events")
        async with open_store(migrated_database_url) as store:
            append = asyncio.create_task(store.append_stored(conversation_id, 0, [("a.v1", b"{}")]))
            await asyncio.sleep(pause)
        await append
        notices = [each async for each in heard.notifies(timeout=10, stop_after=1)]
    assert notices  # an earlier append may be told late, too
    assert len(await log.read_rows(conversation_id)) == 1


async def _find_neighbour(conn: psycopg.AsyncConnection[Any], conversation_id: str) -> str:
    """Another conversation that shares the advisory lock."""
    query = (
        "SELECT id FROM (SELECT 'n' || number AS id FROM generate_series(1, 200000) AS number) AS ids"
        " WHERE hashtext(id) & 4095 = hashtext(%s) & 4095 LIMIT 1"
    )
    row = await (await conn.execute(query, [conversation_id])).fetchone()
    assert row is not None
    return str(row[0])


async def _wait_for_a_waiting_lock(conn: psycopg.AsyncConnection[Any]) -> None:
    while await (await conn.execute(_WAITS)).fetchone() != (True,):  # noqa: ASYNC110 - a server's state
        await asyncio.sleep(0.01)


_WAITS = """
SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database ON database = pg_database.oid
                WHERE NOT granted AND datname = current_database())
"""
_IN_ORDER = """
SELECT topic, xmin::text FROM conversation_events
 WHERE topic IN ('first.v1', 'small.v1', 'large.v1') ORDER BY notification_id
"""
