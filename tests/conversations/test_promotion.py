"""Repair after the promotion of a standby that lacks events. `make failover` has the services find it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psycopg
import pytest
from structlog.testing import capture_logs

from agentchat.bus.bus import Bus
from agentchat.bus.errors import FeedConflict
from agentchat.contracts.ids import make_id
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.errors import VersionConflict
from agentchat.conversations.event_store.conversation_store import ConversationStore, open_store
from agentchat.conversations.event_store.event_log import open_log
from agentchat.ops.prepare import migrate
from agentchat.ops.repair_command import LEFT_OUT, LostEvents, find_lost, repair_positions
from agentchat.projector.feed_publisher import FeedPublisher
from agentchat.runtime.postgres import DatabaseUnavailable, act_as, open_pool
from agentchat.runtime.settings import SettingsError
from tests.conversations.given import build_conversation_started, turn
from tests.conversations.postgres_server import PostgresServer


class Pair:
    """A primary and its standby; `url` names both, the standby first."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer) -> None:
        self.primary = primary
        self.standby = standby
        self.url = f"postgresql://postgres@127.0.0.1:{standby.port},127.0.0.1:{primary.port}/postgres"

    async def caught_up(self) -> None:
        """Until the standby has all that is committed now."""
        async with await psycopg.AsyncConnection.connect(self.primary.url) as conn:
            row = await (await conn.execute("SELECT pg_current_wal_flush_lsn()::text")).fetchone()
        reached_it = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        async with await psycopg.AsyncConnection.connect(self.standby.url, autocommit=True) as conn:
            while (await (await conn.execute(reached_it, row)).fetchone()) != (True,):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
async def migrated_server(tmp_path_factory: pytest.TempPathFactory) -> PostgresServer:
    """One that is stopped."""
    server = PostgresServer(tmp_path_factory.mktemp("migrated"))
    await server.create()
    await server.start()
    await migrate(server.url)
    await server.stop()
    return server


@pytest.fixture
async def pair(migrated_server: PostgresServer, tmp_path: Path) -> AsyncIterator[Pair]:
    primary = migrated_server.copy(tmp_path / "primary")
    standby = primary.copy(tmp_path / "standby")
    standby.follow(primary)
    await primary.start()
    await standby.start()
    yield Pair(primary, standby)
    await standby.stop()


@pytest.fixture
async def bus(fresh_nats_url: str) -> AsyncIterator[Bus]:
    async with Bus.connect(fresh_nats_url, name="test") as opened:
        yield opened


@pytest.mark.parametrize("given", ["target_session_attrs=standby", "postgresql://[", "hostt=a"])
def test_an_address_that_leads_to_no_primary_is_refused(given: str) -> None:
    with pytest.raises(SettingsError, match="AGENTCHAT_DATABASE_URL cannot be used"):
        act_as(given, "gateway")


@pytest.mark.slow
async def test_repair_lists_lost_events_and_refills_the_feed(pair: Pair, bus: Bus) -> None:
    async with (
        open_store(pair.url) as store,
        open_log(pair.url) as log,
        open_pool(pair.url, role=None) as pool,
        asyncio.timeout(60),
    ):
        feed = FeedPublisher(bus, log, pool)
        kept = await _append_told(store, make_id(), "0")
        await pair.caught_up()
        head = await log.read_head()
        await pair.standby.stop()
        await store.append(kept, turn("1", "And then?", "Nothing"))
        gone = await _append_told(store, make_id(), "0")
        seen = await log.read_head()
        while await feed.step():
            pass
        await pair.primary.crash()
        await pair.standby.start()
        await pair.standby.promote()

        assert await _append_answered(lambda: store.load(kept.conversation_id)) == kept, (
            "what is cached was lost"
        )
        assert (await store.load(gone.conversation_id)).version == 0
        with pytest.raises(VersionConflict):
            await store.append(gone, turn("2", "Are you there?", "No"))
        with capture_logs() as logged, pytest.raises(FeedConflict):
            await FeedPublisher(bus, log, pool).step()
        assert [each["event"] for each in logged if each["log_level"] == "error"] == ["feed_ahead_of_log"]

        lost = await find_lost(bus, pool)
        assert lost == LostEvents(
            events=seen - head,
            first_position=head + 1,
            last_position=seen,
            conversations=sorted([kept.conversation_id, gone.conversation_id]),
            deletions=[],
        )
        done = await repair_positions(bus, pool, lost)
        await store.append(kept, turn("3", "Once more?", "Yes"))
        new = [entry.position for entry in await log.read(head, 1000)]
        assert new[0] == done.next_position == seen + LEFT_OUT + 1
        feed.forget_end()
        while await feed.step():
            pass
        assert (await bus.feed.find_end()).position == new[-1]
        assert await find_lost(bus, pool) is None, "EVENTS is as the log is"


async def _append_told(store: ConversationStore, conversation_id: str, word: str) -> Conversation:
    new = [build_conversation_started(), *turn(word, "Where is it?", "Here")]
    return await store.append(Conversation(conversation_id=conversation_id), new)


async def _append_answered(load: Callable[[], Awaitable[Conversation]]) -> Conversation:
    """Once the promotion is over."""
    while True:
        try:
            return await load()
        except DatabaseUnavailable:
            await asyncio.sleep(0.05)
