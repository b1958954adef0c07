"""What becomes of appends and loads while Postgres is lost, frozen, or does not get to answer."""

import asyncio
import time
from collections.abc import Sequence

import psycopg
import pytest

from agentchat.contracts.events import Event
from agentchat.contracts.ids import make_id
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store import append_writer
from agentchat.conversations.event_store.append_writer import TRANSACTION
from agentchat.conversations.event_store.conversation_store import ConversationStore, open_store
from agentchat.conversations.event_store.event_log import open_log
from agentchat.runtime.postgres import DatabaseUnavailable, connect_options
from tests.conversations.given import begin, build_conversation_started
from tests.conversations.turns import OpenAppend
from tests.support.proxy import run_proxy

BOUND_SECONDS = 30.0  # under 5.5 s where nothing else runs; without bounds, as long as the outage


def build_new_conversation() -> Conversation:
    return Conversation(conversation_id=make_id())


@pytest.mark.parametrize(
    "cut", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["connection cut", "silence"]
)
async def test_an_append_whose_commit_was_not_acknowledged_is_stored_once(
    migrated_database_url: str, cut: bool
) -> None:
    async with run_proxy(migrated_database_url) as (proxy, url), open_store(url) as store:
        begun = await store.append(build_new_conversation(), [build_conversation_started()])
        await proxy.set_mode("eat" if cut else "mute")
        appended = await store.append(begun, [*begin()])
        assert proxy.eaten == 1
        assert appended.version == 3
        assert await store.load(begun.conversation_id) == appended


async def test_a_notification_that_was_not_confirmed_is_sent_again(
    migrated_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_writer, "NOTIFY_SECONDS", 0.5)
    async with (
        await psycopg.AsyncConnection.connect(migrated_database_url, autocommit=True) as heard,
        run_proxy(migrated_database_url) as (proxy, url),
        open_store(url) as store,
    ):
        await heard.execute("LISTEN conversation_events")
        await store.append(build_new_conversation(), [build_conversation_started()])
        await proxy.set_mode("one_way")
        assert [each async for each in heard.notifies(timeout=10, stop_after=1)]
        await proxy.set_mode("cut")
        await proxy.set_mode("pass")
        assert [each async for each in heard.notifies(timeout=10, stop_after=1)]


@pytest.mark.slow
async def test_lost_writer_blocks_its_conversation_for_seconds(migrated_database_url: str) -> None:
    """As its machine has lost its power before the end of what it sends. Other conversations do not wait."""
    # The bound of its transaction is to end it, not that of a statement.
    options = connect_options(migrated_database_url, more=f"{TRANSACTION} -c statement_timeout=0")
    gone = await psycopg.AsyncConnection.connect(migrated_database_url, **options)
    conversation = build_new_conversation()
    async with open_store(migrated_database_url) as store, open_log(migrated_database_url) as log:
        await store.append(build_new_conversation(), [build_conversation_started()])
        position = await log.read_head()
        await gone.execute("BEGIN")
        await OpenAppend(gone).append(conversation.conversation_id)
        gone.pgconn.send_query(b"SELECT pg_sleep(60)")
        gone.pgconn.flush()
        begin = time.monotonic()
        other = await store.append(build_new_conversation(), [build_conversation_started()])
        assert await log.read(position, 10) == [], "what is gone may yet commit, below that"
        await _append(store, conversation, [build_conversation_started()])
        found = await log.read(position, 10)
        assert [each.conversation_id for each in found] == [
            other.conversation_id,
            conversation.conversation_id,
        ]
        assert time.monotonic() - begin < BOUND_SECONDS
    await gone.close()


async def _append(store: ConversationStore, conversation: Conversation, new: Sequence[Event]) -> Conversation:
    """As soon as Postgres lets it be."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await store.append(conversation, new)
            except DatabaseUnavailable:
                await asyncio.sleep(0.05)
