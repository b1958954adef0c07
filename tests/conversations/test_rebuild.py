"""Read models are built again next to the live ones, which readers see whole at any time."""

import asyncio
import itertools
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from agentchat.conversations.projections import messages_table
from agentchat.conversations.projections.read_model_follower import Follower
from agentchat.conversations.projections.read_models import PROJECTIONS
from agentchat.conversations.projections.rebuild_read_models import RebuildProgress
from agentchat.runtime.postgres import acquire_connection
from tests.blocking import until_blocked_by
from tests.conversations.read_models import TABLES, Storage

pytestmark = pytest.mark.usefixtures("empty_database")


class Progress(RebuildProgress):
    """Calls `at` with every position that a build comes to."""

    def __init__(self, at: Callable[[int], None]) -> None:
        self.at = at

    def on_advance(self, position: int, head: int) -> None:
        self.at(position)


async def damage(storage: Storage) -> None:
    async with acquire_connection(storage.pool) as conn:
        await conn.execute("UPDATE messages SET content = 'wrong' WHERE role = 'user'")
        await conn.execute("DELETE FROM tools")
        await conn.execute("UPDATE runs SET trace_id = 'unknown ' || trace_id WHERE state = 'failed'")


async def test_rebuild_corrects_the_rows_that_differ(storage: Storage) -> None:
    await storage.store_conversations(1)
    await storage.follow()
    before = await storage.contents()
    assert all(before.values())
    await damage(storage)
    await storage.rebuild(batch=3)
    assert await storage.contents() == before
    await storage.store_conversations(1)
    await storage.follow()
    assert all(one.ok for one in await storage.verify())


async def test_rebuild_fills_tables_that_nobody_has_followed(storage: Storage) -> None:
    await storage.store_conversations(3)
    await storage.rebuild()
    verified = await storage.verify()
    assert [one.position for one in verified] == [await storage.log.read_settled_position()] * len(TABLES)
    assert all(one.ok for one in verified)


async def test_readers_never_see_less_while_writes_go_on(storage: Storage) -> None:
    await storage.store_conversations(10)
    await storage.follow()
    live, done = Follower(storage.pool, storage.log, PROJECTIONS), asyncio.Event()
    seen: list[int] = []

    async def write() -> None:
        while not done.is_set():
            await storage.store_conversations(1)
            await live.step()

    async def read() -> None:
        while not done.is_set():
            seen.append((await storage.rows("SELECT count(*) FROM messages"))[0][0])

    work = [asyncio.create_task(write()), asyncio.create_task(read())]
    await storage.rebuild(batch=200)  # faster than the writer
    done.set()
    await asyncio.gather(*work)
    assert seen == sorted(seen)
    assert seen[0] >= 40
    assert seen[-1] > seen[0]
    await storage.follow()
    assert all(one.ok for one in await storage.verify())


async def test_a_stopped_rebuild_changes_nothing_and_can_be_repeated(storage: Storage) -> None:
    await storage.store_conversations(6)
    await storage.follow()
    await damage(storage)
    before, pages = await storage.contents(), itertools.count()

    def stop(_: int) -> None:
        if next(pages) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await storage.rebuild(watch=Progress(stop), batch=10)
    assert await storage.contents() == before
    await storage.rebuild()
    assert all(one.ok for one in await storage.verify())


async def test_a_follower_waits_for_the_end_of_a_rebuild(storage: Storage) -> None:
    await storage.store_conversations(2)
    await storage.follow()
    await storage.store_conversations(1)
    follower = Follower(storage.pool, storage.log, [messages_table.PROJECTION])
    async with acquire_connection(storage.pool) as conn, conn.transaction():
        await conn.execute("SELECT FROM projection_positions WHERE name = 'messages' FOR UPDATE")
        stepping = asyncio.create_task(follower.step())
        await until_blocked_by(conn)
        await conn.execute("DELETE FROM messages")
        await conn.execute("UPDATE projection_positions SET position = 0 WHERE name = 'messages'")
    await stepping  # it has noticed that the position is another one
    await storage.follow([messages_table.PROJECTION])
    assert (await storage.verify([messages_table.PROJECTION]))[0].ok


async def test_a_new_version_has_its_own_table_next_to_the_old_one(storage: Storage) -> None:
    second = replace(
        messages_table.PROJECTION,
        name="messages_2",
        tables=messages_table.PROJECTION.tables.replace("messages", "messages_2"),
        changes=lambda facts: [
            (statement.replace("INTO messages ", "INTO messages_2 "), parameters)
            for statement, parameters in messages_table.PROJECTION.changes(facts)
        ],
    )
    await storage.store_conversations(2)
    await storage.follow()
    async with storage.as_owner() as owner:
        await owner.execute(second.tables.encode())
        try:
            await storage.follow([messages_table.PROJECTION, second])
            assert (await storage.verify([second]))[0].ok
            await storage.store_conversations(1)
            await storage.follow()  # the release before goes on with its own
            assert await storage.rows("SELECT count(*) FROM messages") == [(12,)]
            assert await storage.rows("SELECT count(*) FROM messages_2") == [(8,)]
            await storage.follow([messages_table.PROJECTION, second])
            assert await storage.rows("SELECT count(*) FROM messages_2") == [(12,)]
        finally:
            await owner.execute("DROP TABLE messages_2")


async def test_live_and_rebuilt_agree_about_what_was_erased(storage: Storage) -> None:
    before, followed, behind, _ = await storage.store_conversations(4)
    await storage.erase(before)
    await storage.follow()
    await storage.erase(followed)
    await storage.follow()
    await storage.erase(behind)  # the log has lost what the live tables still tell
    verified = await storage.verify()
    assert [(one.ok, one.difference) for one in verified] == [(True, None)] * len(TABLES)
    await storage.follow()
    await storage.rebuild()
    assert [len(table) for table in (await storage.contents()).values()] == [1, 4, 9, 1, 1, 4, 1]
    assert all(one.ok for one in await storage.verify())
