"""The log as readers have it: pages by position, conversations by version, notifications of appends."""

import asyncio

import psycopg
import pytest

from agentchat.contracts.ids import make_id
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store import event_log as log_module
from agentchat.conversations.event_store import shared_log
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.event_store.shared_log import SharedLog
from agentchat.conversations.postgres_sessions import listen, open_session, wait_for_notifications
from agentchat.runtime.postgres import Connection, Pool, acquire_connection
from tests.conversations import recorded
from tests.conversations.given import build_conversation_started, build_user_message, turn


@pytest.mark.parametrize(
    ("limit", "page_bytes", "pages"),
    [(100, 10**6, 1), (7, 10**6, 2), (5, 10**6, 2), (100, 1, 7), (7, 1, 7), (1, 1, 8)],
    ids=["all at once", "as many as the limit", "by count", "by bytes", "by either", "by both"],
)
async def test_page_says_whether_the_log_has_more(
    store: ConversationStore,
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    page_bytes: int,
    pages: int,
) -> None:
    position = await log.read_head()
    await store.append(
        Conversation(conversation_id=make_id()), [build_conversation_started(), *turn("a", "Hello", "Hi")]
    )
    monkeypatch.setattr(log_module, "PAGE_BYTES", page_bytes)
    read = [await log.read(position, limit)]
    while not read[-1].is_last:
        read.append(await log.read(read[-1][-1].position, limit))
    assert sum(map(len, read)) == 7
    assert len(read) == pages


async def test_page_is_shared_by_followers_until_the_next_append(
    store: ConversationStore, log: Log, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_log, "SHARED_SECONDS", 60.0)  # a read may take longer than a page is shared
    shared, start = SharedLog(pool), await log.read_head()
    told = await store.append(Conversation(conversation_id=make_id()), [build_conversation_started()])
    first, second = await asyncio.gather(shared.read(start, 10), shared.read(start, 10))
    assert first is second
    assert first[0].event is second[0].event  # decoded once
    await store.append(told, [build_user_message()])
    shared.note_append()
    assert await shared.read(start, 10) == await log.read(start, 10)
    assert await shared.read(start, 1) == first


async def notify(pool: Pool, word: str) -> None:
    async with acquire_connection(pool) as conn:
        await conn.execute("SELECT pg_notify('heard', %s)", [word])


async def test_notification_with_a_statements_answer_is_received(
    migrated_database_url: str, pool: Pool
) -> None:
    async with open_session(migrated_database_url, "test") as session:
        await listen(session, "heard")
        assert await wait_for_notifications(session, seconds=0.01) == []
        await notify(pool, "one")
        assert await wait_for_notifications(session, seconds=20) == ["one"]
        await notify(pool, "two")
        await session.execute("SELECT 1")
        assert await wait_for_notifications(session, seconds=20) == ["two"]


async def test_a_session_that_the_server_has_ended_says_so(migrated_database_url: str, pool: Pool) -> None:
    async with open_session(migrated_database_url, "test") as session:
        await listen(session, "heard")
        async with await psycopg.AsyncConnection.connect(migrated_database_url, autocommit=True) as owner:
            await owner.execute("SELECT pg_terminate_backend(%s)", [session.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            await _has_ended(session)


async def _has_ended(session: Connection) -> None:
    """Its last words may come before its end. Raises psycopg.OperationalError, TimeoutError."""
    async with asyncio.timeout(20):
        while True:
            await wait_for_notifications(session, seconds=20)


async def test_the_newest_run_has_the_message_that_steered_it(store: ConversationStore, log: Log) -> None:
    stored = recorded.encode_carried("busy").stored[:-4]  # until it has joined
    await store.append_stored(thread := make_id(), 0, [(each.topic, each.state) for each in stored])
    (run,) = (await log.load_newest_run(thread)).runs
    assert (run.user_text, len(run.rounds[0].joined)) == ("Where is ORD-1001?", 1)
