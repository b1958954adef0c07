"""Read models rebuilt next to the live ones, and proved: nobody sees half of one, and no kill hurts."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from conversations.erasures import due_erasures, forget_rows
from conversations.errors import RebuildUnderWay
from conversations.projections import messages_table, open_runs_table, shadow, usage_table
from conversations.projections.follower import Follower
from conversations.projections.log_cursors import lock_positions
from conversations.projections.projection import LoggedFact, Statement
from conversations.projections.read_models import PROJECTIONS
from conversations.projections.rebuilding import Build, Watch, alone, due
from runtime.postgres import Pool, connection
from tests.blocking import until_blocked_by
from tests.conversations.read_models import TABLES, Storage

pytestmark = pytest.mark.usefixtures("emptied")

TABLE = "CREATE TABLE rebuilding.tools (LIKE public.tools)"


class Told(Watch):
    """What a rebuild says; `at` is called at every stretch."""

    def __init__(self, at: Callable[[int], None] = lambda _: None) -> None:
        self.at = at
        self.heard: list[tuple[str, str]] = []
        self.resumed_at: dict[str, int] = {}

    def resumed(self, name: str, position: int) -> None:
        self.resumed_at[name] = position

    def advanced(self, position: int, head: int) -> None:
        self.at(position)

    def waits(self, name: str) -> None:
        self.heard.append(("waits", name))

    def swapped(self, name: str, position: int) -> None:
        self.heard.append(("swapped", name))


async def described(storage: Storage) -> list[tuple[Any, ...]]:
    """Owners, rights, columns and indexes of the live tables."""
    names = ", ".join(f"'{table}'" for table in TABLES)
    return await storage.rows(
        "SELECT tablename, indexdef, '' FROM pg_indexes"
        f" WHERE schemaname = 'public' AND tablename IN ({names})"
        " UNION ALL SELECT relname, pg_get_userbyid(relowner), relacl::text FROM pg_class"
        f" WHERE relnamespace = 'public'::regnamespace AND relname IN ({names})"
        " UNION ALL SELECT table_name, column_name, data_type || is_nullable FROM information_schema.columns"
        f" WHERE table_schema = 'public' AND table_name IN ({names}) ORDER BY 1, 2",
    )


async def test_built_again_it_is_the_same_table_with_the_same_rows(storage: Storage) -> None:
    await storage.many(5)
    await storage.follow()
    before, table = await storage.contents(), await described(storage)
    assert all(before.values())
    watch = Told()
    await storage.rebuild(watch=watch, batch=7)
    assert await storage.contents() == before
    assert await described(storage) == table
    assert await storage.shadows() == []
    assert watch.heard == [("swapped", name) for name in TABLES]
    await storage.many(1)
    await storage.follow()
    assert all(one.ok for one in await storage.verify())


async def test_readers_never_see_less_while_writes_go_on(storage: Storage) -> None:
    await storage.many(10)
    await storage.follow()
    live, done = Follower(storage.pool, storage.log, PROJECTIONS), asyncio.Event()
    seen: list[int] = []

    async def write() -> None:
        while not done.is_set():
            await storage.many(1)
            await live.step()

    async def read() -> None:
        while not done.is_set():
            seen.append((await storage.rows("SELECT count(*) FROM messages"))[0][0])

    work = [asyncio.create_task(write()), asyncio.create_task(read())]
    await storage.rebuild(batch=200)  # a batch that is quicker than the writer
    done.set()
    await asyncio.gather(*work)
    assert seen == sorted(seen)
    assert seen[0] >= 40
    assert seen[-1] > seen[0]
    await storage.follow()
    assert all(one.ok for one in await storage.verify())


async def test_broken_off_it_leaves_the_live_tables_alone_and_is_taken_up_again(storage: Storage) -> None:
    await storage.many(6)
    await storage.follow()
    async with connection(storage.pool) as conn:
        await conn.execute("UPDATE messages SET content = 'wrong'")
    before, pages = await storage.contents(), itertools.count()

    def break_off(_: int) -> None:
        if next(pages) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await storage.rebuild(watch=Told(break_off), batch=10)
    assert await storage.contents() == before
    await storage.many(1)
    again, stretches = Told(lambda _: stretches.append(1)), list[int]()
    await storage.rebuild(watch=again, batch=10)
    begun = min(
        position for position, *_ in await storage.rows("SELECT notification_id FROM conversation_events")
    )
    assert again.resumed_at == dict.fromkeys(TABLES, begun + 39)
    assert {content for (content,) in await storage.rows("SELECT content FROM messages")} >= {"Hello", "Hi"}
    assert all(one.ok for one in await storage.verify())


async def test_one_of_another_version_that_was_broken_off_is_begun_again(storage: Storage) -> None:
    await storage.many(3)

    def break_off(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await storage.rebuild([replace(messages_table.PROJECTION, version=7)], watch=Told(break_off), batch=5)
    watch = Told()
    await storage.rebuild([messages_table.PROJECTION], watch=watch)
    assert watch.resumed_at == {}
    assert [one.rows for one in await storage.verify([messages_table.PROJECTION])] == [12]


async def test_a_new_layout_comes_with_the_swap(storage: Storage) -> None:
    def changes(facts: Sequence[LoggedFact]) -> list[Statement]:
        count = "UPDATE messages SET words = array_length(string_to_array(content, ' '), 1)"
        return [*messages_table.PROJECTION.changes(facts), (count, ())]

    tables = messages_table.PROJECTION.tables.replace("trace_id text", "words integer, trace_id text")
    second = replace(messages_table.PROJECTION, version=2, tables=tables, changes=changes)
    await storage.many(1)
    await storage.follow()
    assert await due(storage.pool, [messages_table.PROJECTION, second]) == [second]
    await storage.rebuild([second])
    found = await storage.rows("SELECT content, words FROM messages ORDER BY position LIMIT 2")
    assert found == [("Hello", 1), ("Hi", 1)]
    (one,) = await storage.verify([messages_table.PROJECTION])
    assert (one.ok, one.stored) == (False, 2)
    await storage.rebuild([messages_table.PROJECTION])
    assert (await storage.verify([messages_table.PROJECTION]))[0].ok


async def test_two_do_not_build_the_same_one(storage: Storage) -> None:
    async with alone(storage.pool, "rebuilding", [messages_table.PROJECTION]):
        with pytest.raises(RebuildUnderWay, match="messages is being built"):
            await storage.rebuild()
        await storage.rebuild([usage_table.PROJECTION])
    await storage.rebuild()


async def test_a_swap_waits_for_who_reads(storage: Storage) -> None:
    class Waits(Told):
        def waits(self, name: str) -> None:
            super().waits(name)
            release.set()

    async def hold() -> None:
        async with connection(storage.pool) as conn, conn.transaction():
            await conn.execute("SET LOCAL idle_in_transaction_session_timeout TO 0")
            await conn.execute("LOCK TABLE open_runs IN ACCESS SHARE MODE")
            held.set()
            await release.wait()

    release, held, watch = asyncio.Event(), asyncio.Event(), Waits()
    await storage.many(1)
    holding = asyncio.create_task(hold())
    await held.wait()
    await storage.rebuild([open_runs_table.PROJECTION], watch=watch)
    await holding
    assert watch.heard == [("waits", "open_runs"), ("swapped", "open_runs")]
    assert len(await storage.rows("SELECT * FROM open_runs")) == 1


async def test_a_follower_that_starts_during_a_swap_follows_the_new_table(storage: Storage) -> None:
    await storage.many(1)
    await storage.follow()
    build = Build(storage.pool, storage.log, [messages_table.PROJECTION], "rebuilding")
    await build.prepare()
    await build.advance(await storage.log.head())
    await storage.many(1)
    follower = Follower(storage.pool, storage.log, [messages_table.PROJECTION], reset=False)
    async with connection(storage.pool) as conn, conn.transaction():
        await lock_positions(conn)
        stepping = asyncio.create_task(follower.step())
        await until_blocked_by(conn)
        await shadow.swap(conn, messages_table.PROJECTION)
    assert await stepping > 0
    assert await storage.rows("SELECT count(*) FROM messages") == [(8,)]


@pytest.mark.parametrize(
    "made",
    [
        "CREATE VIEW rebuilding.tools AS SELECT * FROM public.tools",
        f"{TABLE}; ALTER TABLE rebuilding.tools ENABLE ROW LEVEL SECURITY",
        f"{TABLE}; CREATE RULE more AS ON INSERT TO rebuilding.tools DO ALSO SELECT 1",
        f"{TABLE}; CREATE TRIGGER more BEFORE INSERT ON rebuilding.tools"
        " EXECUTE FUNCTION tsvector_update_trigger()",
        f"{TABLE}; CREATE TABLE rebuilding.more () INHERITS (rebuilding.tools)",
    ],
)
async def test_a_table_that_has_its_readers_run_code_does_not_become_live(pool: Pool, made: str) -> None:
    async with connection(pool) as conn, conn.transaction(force_rollback=True):
        await conn.execute(made.encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is no plain table"):
            async with conn.transaction():
                await conn.execute("SELECT swap_read_model('tools')")


async def test_who_builds_read_models_may_not_change_the_live_ones(storage: Storage) -> None:
    for _ in range(2):  # as migrated, and as rebuilt
        async with connection(storage.pool) as conn:
            for change in ("ENABLE ROW LEVEL SECURITY", "OWNER TO agentchat_service", "ADD COLUMN more text"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    await conn.execute(f"ALTER TABLE public.tools {change}".encode())
        await storage.rebuild()
    async with connection(storage.pool) as conn, conn.transaction(force_rollback=True):
        await conn.execute("CREATE TABLE rebuilding.tools (LIKE public.tools INCLUDING ALL)")
        await conn.execute("GRANT ALL ON rebuilding.tools TO agentchat_service, PUBLIC")
        await conn.execute("SELECT swap_read_model('tools')")
        row = await (await conn.execute("SELECT has_table_privilege('public.tools', 'TRIGGER')")).fetchone()
    assert row == (False,)


async def test_nothing_but_a_read_model_can_be_swapped(pool: Pool) -> None:
    async with connection(pool) as conn:
        await conn.execute("CREATE TABLE rebuilding.conversation_events (id text)")
        try:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is no read model"):
                await conn.execute("SELECT swap_read_model('conversation_events')")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await conn.execute("INSERT INTO read_models VALUES ('conversation_events')")
        finally:
            await conn.execute("DROP TABLE rebuilding.conversation_events")


async def test_live_and_rebuilt_agree_about_what_was_erased(storage: Storage) -> None:
    before, followed, behind, _ = await storage.many(4)
    await storage.erase(before)
    await storage.follow()
    await storage.erase(followed)
    await storage.follow()
    await storage.erase(behind)  # the log has lost what the live tables still tell
    verified = await storage.verify()
    assert [(one.ok, one.difference) for one in verified] == [(True, None)] * len(TABLES)
    await storage.rebuild()
    assert [len(table) for table in (await storage.contents()).values()] == [1, 4, 1, 9, 3, 1, 1, 1, 4, 1]
    assert all(one.ok for one in await storage.verify())


async def test_a_rebuild_that_was_broken_off_keeps_nothing_of_what_was_erased(storage: Storage) -> None:
    def break_off(_: int) -> None:
        raise KeyboardInterrupt

    erased, kept = await storage.many(2)
    await storage.follow()
    with pytest.raises(KeyboardInterrupt):
        await storage.rebuild(watch=Told(break_off))
    await storage.erase(erased)
    (due_now,) = await due_erasures(storage.pool, limit=10)
    await forget_rows(storage.pool, due_now)
    for table in TABLES:
        left = await storage.rows(f"SELECT DISTINCT conversation_id FROM rebuilding.{table}")
        assert left == [(kept.conversation_id,)]
    watch = Told()
    await storage.rebuild(watch=watch)
    assert len(watch.resumed_at) == len(TABLES)
    assert all(one.ok for one in await storage.verify())
    assert [len(table) for table in (await storage.contents()).values()] == [1, 4, 1, 5, 3, 1, 1, 1, 4, 1]
