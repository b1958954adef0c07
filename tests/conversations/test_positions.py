"""Appends that run at the same time, and readers that miss none of their events."""

import asyncio
import random
from collections.abc import Sequence

import psycopg
import pytest

from agentchat.contracts.ids import make_id
from agentchat.conversations.event_store.conversation_store import ConversationStore, open_store
from agentchat.conversations.event_store.event_log import Log, LogEntry
from agentchat.conversations.event_store.feed_reader import store_fed_position
from agentchat.conversations.projections.read_models import PROJECTIONS
from agentchat.conversations.projections.rebuild_read_models import rebuild
from agentchat.runtime.postgres import Pool, open_pool
from tests.conversations.postgres_server import PostgresServer
from tests.conversations.turns import EVENT, LOCK_CONVERSATION, OpenAppend, append_held, register_late


async def append(store: ConversationStore) -> str:
    """One event, of a new conversation; returns its id."""
    conversation_id = make_id()
    await store.append_stored(conversation_id, 0, [EVENT])
    return conversation_id


def list_ids(entries: Sequence[LogEntry]) -> list[str]:
    return [entry.conversation_id for entry in entries]


async def test_a_reader_gets_nothing_that_is_after_an_append_under_way(
    store: ConversationStore, log: Log, migrated_database_url: str
) -> None:
    await append(store)
    start = await log.read_head()
    async with append_held(migrated_database_url) as first:
        await first.append(slow := make_id())
        fast = await append(store)
        assert await log.read(start, 10) == []
        assert await log.read_settled_position() == start
        assert await log.read_head() > start
        await first.commit()
    assert list_ids(await log.read(start, 10)) == [slow, fast]
    assert await log.read_settled_position() == await log.read_head()


async def test_reader_continues_after_a_rollback_or_lost_session(
    store: ConversationStore, log: Log, migrated_database_url: str
) -> None:
    await append(store)
    start = await log.read_head()
    async with append_held(migrated_database_url) as first:
        await first.append(make_id())
        one = await append(store)
        assert await log.read(start, 10) == []
        await first.roll_back()
        assert list_ids(await log.read(start, 10)) == [one]
        await first.append(make_id())
        two = await append(store)
    async with asyncio.timeout(20):
        while list_ids(found := await log.read(start, 10)) == [one]:  # noqa: ASYNC110 - the server has to notice
            await asyncio.sleep(0.01)
    assert list_ids(found) == [one, two]


async def test_an_append_that_waits_for_its_conversation_holds_no_reader_up(
    store: ConversationStore, log: Log, migrated_database_url: str
) -> None:
    await append(store)
    start, waited_for = await log.read_head(), make_id()
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as holder:
        await holder.execute(LOCK_CONVERSATION, [waited_for])
        waiting = asyncio.create_task(store.append_stored(waited_for, 0, [EVENT]))
        async with open_store(migrated_database_url) as other:
            one = await append(other)
        assert list_ids(await log.read(start, 10)) == [one]
        assert not waiting.done()
        await holder.rollback()
    await waiting
    assert list_ids(await log.read(start, 10)) == [one, waited_for]


@pytest.mark.slow
async def test_settled_position_needs_the_primary_and_read_committed(frail_postgres: PostgresServer) -> None:
    async with await psycopg.AsyncConnection.connect(frail_postgres.url) as conn:
        await conn.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        with pytest.raises(psycopg.errors.InvalidTransactionState, match="READ COMMITTED"):
            await conn.execute("SELECT settled_position()")
    await frail_postgres.stop()
    (frail_postgres.data / "standby.signal").touch()
    await frail_postgres.start()
    async with await psycopg.AsyncConnection.connect(frail_postgres.url) as conn:
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="on the primary"):
            await conn.execute("SELECT settled_position()")


async def test_nobody_goes_back_with_the_settled_position(
    store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str
) -> None:
    first = await append(store)
    (begin,) = [entry.position for entry in await log.read_rows(first)]
    await append(store)
    end = await log.read_head()
    await store_fed_position(pool, end)
    async with (
        register_late(migrated_database_url, begin),
        open_pool(migrated_database_url, max_size=3) as wide,
    ):
        assert await log.read_settled_position() == begin < await log.read_head() == end
        assert await log.read(end, 10) == []
        assert list_ids(await log.read(begin - 1, 10)) == [first]
        assert await rebuild(wide, log, PROJECTIONS[:1]) == begin


class Follower:
    """Reads the log behind a position of its own, and keeps what it got."""

    def __init__(self, log: Log, start: int) -> None:
        self.seen: list[LogEntry] = []
        self._log = log
        self._position = start

    async def look(self) -> None:
        for entry in await self._page():
            self.seen.append(entry)
            self._position = entry.position

    async def _page(self) -> list[LogEntry]:
        return await self._log.read(self._position, 50)

    async def until(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            await self.look()
            await asyncio.sleep(0)

    def check(self, stored: Sequence[LogEntry]) -> None:
        """It got every event once, and those of each conversation in their order."""
        assert [entry.position for entry in self.seen] == [entry.position for entry in stored]
        versions: dict[str, int] = {}
        for entry in self.seen:
            assert entry.version == versions.get(entry.conversation_id, entry.version - 1) + 1
            versions[entry.conversation_id] = entry.version


async def write(url: str, rounds: int, seed: int) -> None:
    """Appends one after the other, each open for some round trips; every fifth is rolled back."""
    chance = random.Random(seed)
    conversation_id, version = make_id(), 0
    async with append_held(url) as writer:
        for _ in range(rounds):
            events = chance.randint(1, 3)
            await writer.append(conversation_id, version, events)
            await asyncio.sleep(chance.random() / 200)
            if chance.random() < 0.2:
                await writer.roll_back()
            else:
                await writer.commit()
                version += events


async def follow(url: str, log: Log, followers: Sequence[Follower], *, writers: int, rounds: int) -> None:
    ended = asyncio.Event()
    following = [asyncio.create_task(each.until(ended)) for each in followers]
    await asyncio.gather(*(write(url, rounds, seed) for seed in range(writers)))
    ended.set()
    await asyncio.gather(*following)
    for each in followers:
        await each.look()


async def test_readers_beside_writers_get_every_event_once_in_order(
    log: Log, migrated_database_url: str
) -> None:
    start = await log.read_head()
    reader = Follower(log, start)
    await follow(migrated_database_url, log, [reader], writers=16, rounds=30)
    reader.check(await log.read(start, 10_000))


async def append_one_at_a_time(url: str) -> bool:
    """Whether an append waits for one of another conversation."""
    async with (
        append_held(url) as first,
        await psycopg.AsyncConnection.connect(url, options="-c lock_timeout=300ms") as conn,
    ):
        await first.append(make_id())
        try:
            await OpenAppend(conn).append(make_id())
        except psycopg.errors.LockNotAvailable:
            return True
        return False


async def test_appends_to_different_conversations_do_not_wait(migrated_database_url: str) -> None:
    assert not await append_one_at_a_time(migrated_database_url)
