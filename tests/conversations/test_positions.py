"""Appends that run at the same time, and readers that miss none of their events."""

import asyncio
import contextlib
import os
import random
import sys
from collections.abc import Sequence

import psycopg
import pytest

from contracts.ids import new_id
from conversations.application import DATABASE_URL, ConversationLog
from conversations.errors import VersionConflict
from conversations.event_store.feed_reader import remember_fed
from conversations.event_store.log import Log, LogEntry, open_log
from conversations.event_store.store import ConversationStore, open_store
from conversations.migrations import STEPS, migrate, reopen
from conversations.projections.read_models import PROJECTIONS
from conversations.projections.rebuilding import Build
from runtime.migrations import apply, migrating
from runtime.postgres import Pool, connection, open_pool
from tests.blocking import until_blocked_by
from tests.conversations.postgres_server import PostgresServer
from tests.conversations.turns import EVENT, LOCK_CONVERSATION, OpenAppend, appending, registered_late


async def append(store: ConversationStore) -> str:
    """One event, of a new conversation; returns its id."""
    conversation_id = new_id()
    await store.append_stored(conversation_id, 0, [EVENT])
    return conversation_id


def ids(entries: Sequence[LogEntry]) -> list[str]:
    return [entry.conversation_id for entry in entries]


async def test_a_reader_gets_nothing_that_is_after_an_append_under_way(
    store: ConversationStore, log: Log, migrated_database_url: str
) -> None:
    await append(store)
    start = await log.head()
    async with appending(migrated_database_url) as first:
        await first.append(slow := new_id())
        fast = await append(store)
        assert await log.read(start, 10) == []
        assert await log.settled() == start
        assert await log.head() > start
        await first.commit()
    assert ids(await log.read(start, 10)) == [slow, fast]
    assert await log.settled() == await log.head()


async def test_a_reader_goes_on_when_an_append_is_rolled_back_or_its_session_ends(
    store: ConversationStore, log: Log, migrated_database_url: str
) -> None:
    await append(store)
    start = await log.head()
    async with appending(migrated_database_url) as first:
        await first.append(new_id())
        one = await append(store)
        assert await log.read(start, 10) == []
        await first.roll_back()
        assert ids(await log.read(start, 10)) == [one]
        await first.append(new_id())
        two = await append(store)
    async with asyncio.timeout(20):
        while ids(found := await log.read(start, 10)) == [one]:  # noqa: ASYNC110 - the server has to notice
            await asyncio.sleep(0.01)
    assert ids(found) == [one, two]


async def test_an_append_that_waits_for_its_conversation_holds_no_reader_up(
    store: ConversationStore, log: Log, migrated_database_url: str
) -> None:
    await append(store)
    start, waited_for = await log.head(), new_id()
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as holder:
        await holder.execute(LOCK_CONVERSATION, [waited_for])
        waiting = asyncio.create_task(store.append_stored(waited_for, 0, [EVENT]))
        await until_blocked_by(holder)
        async with open_store(migrated_database_url) as other:
            one = await append(other)
        assert ids(await log.read(start, 10)) == [one]
        await holder.rollback()
    await waiting
    assert ids(await log.read(start, 10)) == [one, waited_for]


async def test_of_writers_of_a_conversation_at_one_version_one_wins(
    log: Log, migrated_database_url: str
) -> None:
    conversation_id, writers = new_id(), 6
    async with contextlib.AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_store(migrated_database_url)) for _ in range(writers)]
        for version in range(10):
            outcomes = await asyncio.gather(
                *(
                    store.append_stored(conversation_id, version, [(f"by-{number}.v1", b"{}")])
                    for number, store in enumerate(stores)
                ),
                return_exceptions=True,
            )
            assert [type(each) for each in outcomes if each is not None] == [VersionConflict] * (writers - 1)
    rows = await log.rows(conversation_id)
    assert [row.version for row in rows] == list(range(1, 11))
    assert [row.position for row in rows] == sorted(row.position for row in rows)


async def test_the_settled_position_is_not_asked_of_a_standby_nor_in_an_older_snapshot(
    frail_postgres: PostgresServer,
) -> None:
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
    (begin,) = [entry.position for entry in await log.rows(first)]
    await append(store)
    end = await log.head()
    await remember_fed(pool, end)
    async with (
        registered_late(migrated_database_url, begin),
        open_pool(migrated_database_url, max_size=len(PROJECTIONS) + 3) as wide,
    ):
        assert await log.settled() == begin < await log.head() == end
        assert await log.read(end, 10) == []
        assert ids(await log.read(begin - 1, 10)) == [first]
        build = Build(wide, log, PROJECTIONS[:1], "verifying")
        await build.prepare()
        await build.advance(end)  # as the live one is, which is compared with it
        assert build.positions == {PROJECTIONS[0].name: end}
        await build.drop()


async def test_a_reader_by_the_library_waits_for_appends_under_way(
    store: ConversationStore, log: Log, migrated_database_url: str
) -> None:
    await append(store)
    start = await log.head()

    def read() -> list[str]:
        with ConversationLog({DATABASE_URL: migrated_database_url}) as application:
            found = application.recorder.select_notifications(start, 10, inclusive_of_start=False)
            return [str(each.originator_id) for each in found]

    async with appending(migrated_database_url) as first:
        await first.append(slow := new_id())
        fast = await append(store)
        assert await asyncio.to_thread(read) == []
        await first.commit()
    assert await asyncio.to_thread(read) == [slow, fast]


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


class FollowerOfBefore(Follower):
    """As release 0.9.0 reads: whatever is after its position now."""

    async def _page(self) -> list[LogEntry]:
        return await self._log.read_all(self._position, 50)


async def write(url: str, rounds: int, seed: int) -> None:
    """Appends one after the other, each open for some round trips; every fifth is rolled back."""
    chance = random.Random(seed)
    conversation_id, version = new_id(), 0
    async with appending(url) as writer:
        for _ in range(rounds):
            events = chance.randint(1, 3)
            await writer.append(conversation_id, version, events)
            await asyncio.sleep(chance.random() / 200)
            if chance.random() < 0.2:
                await writer.roll_back()
            else:
                await writer.commit()
                version += events


async def followed(url: str, log: Log, followers: Sequence[Follower], *, writers: int, rounds: int) -> None:
    ended = asyncio.Event()
    following = [asyncio.create_task(each.until(ended)) for each in followers]
    await asyncio.gather(*(write(url, rounds, seed) for seed in range(writers)))
    ended.set()
    await asyncio.gather(*following)
    for each in followers:
        await each.look()


async def test_readers_next_to_many_writers_get_every_event_once_and_in_order(
    log: Log, migrated_database_url: str
) -> None:
    """A reader of 0.9.0 does not: that is why it must not run when an upgrade is finished."""
    start = await log.head()
    ours, theirs = Follower(log, start), FollowerOfBefore(log, start)
    await followed(migrated_database_url, log, [ours, theirs], writers=16, rounds=30)
    stored = await log.read_all(start, 10_000)
    ours.check(stored)
    assert len(theirs.seen) < len(stored)


@pytest.fixture
async def released_url(database_url: str) -> str:
    """A database as release 0.9.0 has made it."""
    async with migrating(database_url) as conn:
        await conn.execute("DROP SCHEMA IF EXISTS public, rebuilding, verifying CASCADE")
        await conn.execute("CREATE SCHEMA public")
        await apply(conn, "conversations", STEPS[:1])
    return database_url


async def test_an_upgrade_from_0_9_0_loses_no_reader_an_event(released_url: str) -> None:
    """Writers and readers of both releases while tables are migrated, then those of the new one alone while
    the upgrade is finished, then both again after the way back.
    """
    async with open_log(released_url) as log:
        theirs = FollowerOfBefore(log, 0)
        both = asyncio.create_task(followed(released_url, log, [theirs], writers=6, rounds=30))
        await migrate(released_url)
        ours = Follower(log, 0)
        await followed(released_url, log, [ours], writers=4, rounds=20)
        await both
        await ours.look()
        for each in (ours, theirs):
            await _catch_up(each)
            each.check(await log.read_all(0, 10_000))

        alone = asyncio.create_task(followed(released_url, log, [ours], writers=6, rounds=20))
        await migrate(released_url, finish=True)
        await alone
        await _catch_up(ours)
        ours.check(await log.read_all(0, 10_000))

        alone = asyncio.create_task(followed(released_url, log, [ours], writers=6, rounds=20))
        await reopen(released_url)
        start = await log.head()
        theirs = FollowerOfBefore(log, start)
        await followed(released_url, log, [theirs], writers=6, rounds=20)
        await alone
        await _catch_up(ours)
        await _catch_up(theirs)
        ours.check(await log.read_all(0, 10_000))
        theirs.check(await log.read_all(start, 10_000))


async def _catch_up(follower: Follower) -> None:
    before = -1
    while len(follower.seen) > before:
        before = len(follower.seen)
        await follower.look()


async def one_at_a_time(url: str) -> bool:
    """Whether an append waits for one of another conversation."""
    async with (
        appending(url) as first,
        await psycopg.AsyncConnection.connect(url, options="-c lock_timeout=300ms") as conn,
    ):
        await first.append(new_id())
        try:
            await OpenAppend(conn).append(new_id())
        except psycopg.errors.LockNotAvailable:
            return True
        return False


async def test_appends_go_side_by_side_in_a_new_database_and_else_when_the_upgrade_is_finished(
    released_url: str, migrated_database_url: str
) -> None:
    assert not await one_at_a_time(migrated_database_url)
    assert await one_at_a_time(released_url)
    await migrate(released_url)
    assert await one_at_a_time(released_url)
    await migrate(released_url, finish=True)
    await migrate(released_url)
    assert not await one_at_a_time(released_url)
    await reopen(released_url)
    assert await one_at_a_time(released_url)
    await migrate(released_url, finish=True)
    assert not await one_at_a_time(released_url)


async def agentchat_migrate(url: str, *options: str) -> tuple[int | None, str]:
    """Its exit code, and what it says on stderr. A process of its own: it sets up logging."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ops.main", "migrate", *options),
        env=os.environ | {"AGENTCHAT_DATABASE_URL": url},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    return process.returncode, errors.decode()


async def test_an_upgrade_is_finished_and_taken_back_by_a_command(released_url: str) -> None:
    """Not while a session is connected that does not say what it is of: those of 0.9.0 do not."""
    async with await psycopg.AsyncConnection.connect(released_url):
        assert await agentchat_migrate(released_url, "--finish") == (
            1,
            "the database cannot be prepared: processes of release 0.9.0 are connected, or others without an"
            " application_name, as postgres: end them first\n",
        )
    async with asyncio.timeout(40):
        while (await agentchat_migrate(released_url, "--finish"))[0] != 0:
            pass  # the server has to notice that the session is closed
    async with open_pool(released_url) as pool, connection(pool):
        assert await agentchat_migrate(released_url, "--finish") == (0, ""), "ours is no hindrance"
    assert not await one_at_a_time(released_url)
    assert await agentchat_migrate(released_url, "--reopen") == (0, "")
    assert await one_at_a_time(released_url)
    both = await agentchat_migrate(released_url, "--finish", "--reopen")
    assert both == (2, "agentchat: --finish and --reopen exclude each other\n")
