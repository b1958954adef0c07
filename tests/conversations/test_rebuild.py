"""Read models built anew beside the live ones, and proved: nobody sees half of one, and no kill hurts."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from contracts.events import ConversationErased, Event
from contracts.ids import new_id
from conversations.conversation import Conversation
from conversations.erasures import due_erasures, forget_rows
from conversations.errors import RebuildUnderWay
from conversations.log import Log, open_log
from conversations.projections import conversations, messages, open_runs, shadow, usage
from conversations.projections.catalogue import PROJECTIONS
from conversations.projections.follower import Follower
from conversations.projections.projection import LoggedFact
from conversations.projections.rebuilding import Build, Watch, alone, due, rebuild
from conversations.projections.verifying import verify
from conversations.spending import spent_of
from conversations.store import ConversationStore
from ops.errors import StackError
from ops.main import app
from runtime.postgres import Connection, Pool, connection
from tests.conversations.given import (
    ACCOUNT,
    LATER,
    asked,
    began,
    failed,
    returned,
    started,
    trace,
    turn,
    use,
    wanted,
)

TABLES = [each.name for each in PROJECTIONS]
_words = itertools.count()


@pytest.fixture
async def log(migrated_database_url: str) -> AsyncIterator[Log]:
    async with open_log(migrated_database_url) as opened:
        yield opened


@pytest.fixture(autouse=True)
async def emptied(migrated_database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        tables = [*TABLES, "conversation_events", "projection_positions", "parked_events", "erasures"]
        await owner.execute(f"TRUNCATE {', '.join(tables)}".encode())


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


async def told(store: ConversationStore, *stored: Event) -> Conversation:
    return await store.append(Conversation(conversation_id=new_id()), [began(), *stored])


async def many(store: ConversationStore, count: int) -> list[Conversation]:
    """Threads with a whole turn, a run with a tool that failed, and an open run each."""
    made = []
    for _ in range(count):
        a, b, c = (f"{word}{next(_words)}" for word in "abc")
        tools = (*wanted([use(f"call-{b}")], b), returned(f"call-{b}", word=b))
        made.append(
            await told(
                store, *turn(a, "Hello", "Hi"), asked(b), started(b), *tools, failed(b), asked(c), started(c)
            )
        )
    return made


async def follow(pool: Pool, log: Log) -> None:
    follower = Follower(pool, log, PROJECTIONS)
    while await follower.step():
        pass


async def rows(pool: Pool, query: str) -> list[tuple[Any, ...]]:
    async with connection(pool) as conn:
        return await (await conn.execute(query.encode())).fetchall()


async def contents(pool: Pool) -> dict[str, list[tuple[Any, ...]]]:
    return {table: await rows(pool, f"SELECT * FROM {table} ORDER BY 1, 2") for table in TABLES}


async def described(pool: Pool) -> list[tuple[Any, ...]]:
    """Owners, rights, columns and indexes of the live tables."""
    names = ", ".join(f"'{table}'" for table in TABLES)
    return await rows(
        pool,
        "SELECT tablename, indexdef, '' FROM pg_indexes"
        f" WHERE schemaname = 'public' AND tablename IN ({names})"
        " UNION ALL SELECT relname, pg_get_userbyid(relowner), relacl::text FROM pg_class"
        f" WHERE relnamespace = 'public'::regnamespace AND relname IN ({names})"
        " UNION ALL SELECT table_name, column_name, data_type || is_nullable FROM information_schema.columns"
        f" WHERE table_schema = 'public' AND table_name IN ({names}) ORDER BY 1, 2",
    )


async def shadows(pool: Pool) -> list[tuple[Any, ...]]:
    return await rows(
        pool,
        "SELECT tablename FROM pg_tables WHERE schemaname IN ('rebuilding', 'verifying')"
        " UNION ALL SELECT name FROM projection_positions WHERE name LIKE '%@%'",
    )


@pytest.mark.requirement("REBUILD")
async def test_built_anew_it_is_the_same_table_with_the_same_rows(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    await many(store, 5)
    await follow(pool, log)
    before, table = await contents(pool), await described(pool)
    assert all(before.values())
    watch = Told()
    await rebuild(pool, log, PROJECTIONS, watch=watch, batch=7)
    assert await contents(pool) == before
    assert await described(pool) == table
    assert await shadows(pool) == []
    assert watch.heard == [("swapped", name) for name in TABLES]
    await many(store, 1)
    await follow(pool, log)
    assert all(one.ok for one in await verify(pool, log, PROJECTIONS))


@pytest.mark.requirement("REBUILD")
async def test_readers_never_see_less_while_writes_go_on(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    await many(store, 10)
    await follow(pool, log)
    live, done = Follower(pool, log, PROJECTIONS), asyncio.Event()
    seen: list[int] = []

    async def write() -> None:
        while not done.is_set():
            await many(store, 1)
            await live.step()

    async def read() -> None:
        while not done.is_set():
            seen.append((await rows(pool, "SELECT count(*) FROM messages"))[0][0])

    work = [asyncio.create_task(write()), asyncio.create_task(read())]
    await rebuild(pool, log, PROJECTIONS, batch=20)
    done.set()
    await asyncio.gather(*work)
    assert seen == sorted(seen)
    assert seen[0] >= 40
    assert seen[-1] > seen[0]
    await follow(pool, log)
    assert all(one.ok for one in await verify(pool, log, PROJECTIONS))


@pytest.mark.requirement("REBUILD")
async def test_broken_off_it_leaves_the_live_tables_alone_and_is_taken_up_again(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    await many(store, 6)
    await follow(pool, log)
    async with connection(pool) as conn:
        await conn.execute("UPDATE messages SET content = 'wrong'")
    before, pages = await contents(pool), itertools.count()

    def break_off(_: int) -> None:
        if next(pages) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await rebuild(pool, log, PROJECTIONS, watch=Told(break_off), batch=10)
    assert await contents(pool) == before
    await many(store, 1)
    again, stretches = Told(lambda _: stretches.append(1)), list[int]()
    await rebuild(pool, log, PROJECTIONS, watch=again, batch=10)
    begun = min(
        position for position, *_ in await rows(pool, "SELECT notification_id FROM conversation_events")
    )
    assert again.resumed_at == dict.fromkeys(TABLES, begun + 39)
    assert {content for (content,) in await rows(pool, "SELECT content FROM messages")} >= {"Hello", "Hi"}
    assert all(one.ok for one in await verify(pool, log, PROJECTIONS))


@pytest.mark.requirement("REBUILD")
async def test_one_of_another_version_that_was_broken_off_is_begun_anew(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    await many(store, 3)

    def break_off(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await rebuild(pool, log, [replace(messages.PROJECTION, version=7)], watch=Told(break_off), batch=5)
    watch = Told()
    await rebuild(pool, log, [messages.PROJECTION], watch=watch)
    assert watch.resumed_at == {}
    assert [one.rows for one in await verify(pool, log, [messages.PROJECTION])] == [12]


@pytest.mark.requirement("REBUILD")
async def test_a_new_layout_comes_with_the_swap(store: ConversationStore, log: Log, pool: Pool) -> None:
    async def apply(conn: Connection, facts: Sequence[LoggedFact]) -> None:
        await messages.PROJECTION.apply(conn, facts)
        await conn.execute("UPDATE messages SET words = array_length(string_to_array(content, ' '), 1)")

    tables = messages.PROJECTION.tables.replace("trace_id text", "words integer, trace_id text")
    second = replace(messages.PROJECTION, version=2, tables=tables, apply=apply)
    await many(store, 1)
    await follow(pool, log)
    assert await due(pool, [messages.PROJECTION, second]) == [second]
    await rebuild(pool, log, [second])
    found = await rows(pool, "SELECT content, words FROM messages ORDER BY position LIMIT 2")
    assert found == [("Hello", 1), ("Hi", 1)]
    (one,) = await verify(pool, log, [messages.PROJECTION])
    assert (one.ok, one.stored) == (False, 2)
    await rebuild(pool, log, [messages.PROJECTION])
    assert (await verify(pool, log, [messages.PROJECTION]))[0].ok


@pytest.mark.requirement("REBUILD")
async def test_two_do_not_build_the_same_one(log: Log, pool: Pool) -> None:
    async with alone(pool, "rebuilding", [messages.PROJECTION]):
        with pytest.raises(RebuildUnderWay, match="messages is being built"):
            await rebuild(pool, log, PROJECTIONS)
        await rebuild(pool, log, [usage.PROJECTION])
    await rebuild(pool, log, PROJECTIONS)


@pytest.mark.requirement("REBUILD")
async def test_a_swap_waits_for_who_reads(store: ConversationStore, log: Log, pool: Pool) -> None:
    class Waits(Told):
        def waits(self, name: str) -> None:
            super().waits(name)
            release.set()

    async def hold() -> None:
        async with connection(pool) as conn, conn.transaction():
            await conn.execute("SET LOCAL idle_in_transaction_session_timeout TO 0")
            await conn.execute("LOCK TABLE open_runs IN ACCESS SHARE MODE")
            held.set()
            await release.wait()

    release, held, watch = asyncio.Event(), asyncio.Event(), Waits()
    await many(store, 1)
    holding = asyncio.create_task(hold())
    await held.wait()
    await rebuild(pool, log, [open_runs.PROJECTION], watch=watch)
    await holding
    assert watch.heard == [("waits", "open_runs"), ("swapped", "open_runs")]
    assert len(await rows(pool, "SELECT * FROM open_runs")) == 1


@pytest.mark.requirement("REBUILD")
async def test_a_follower_that_starts_during_a_swap_follows_the_new_table(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    blocked = "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"
    await many(store, 1)
    await follow(pool, log)
    build = Build(pool, log, [messages.PROJECTION], "rebuilding")
    await build.prepare()
    await build.advance(await log.head())
    follower = Follower(pool, log, [messages.PROJECTION], anew=False)
    async with connection(pool) as conn, conn.transaction():
        await conn.execute("SELECT FROM projection_positions WHERE name = 'messages' FOR UPDATE")
        stepping = asyncio.create_task(follower.step())
        while await rows(pool, blocked) != [(1,)]:  # noqa: ASYNC110 - the server knows
            await asyncio.sleep(0.01)
        await shadow.swap(conn, messages.PROJECTION)
    assert await stepping == 0
    await many(store, 1)
    await follower.step()
    assert await rows(pool, "SELECT count(*) FROM messages") == [(8,)]


@pytest.mark.requirement("REBUILD")
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


async def erase(store: ConversationStore, thread: Conversation) -> None:
    erased = ConversationErased(trace_id=trace("e"), at=LATER, account_id=ACCOUNT, spent=spent_of(thread))
    await store.append(thread, [erased])


@pytest.mark.requirement("REBUILD", "VERIFY", "ERASE")
async def test_live_and_rebuilt_agree_about_what_was_erased(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    before, followed, behind, _ = await many(store, 4)
    await erase(store, before)
    await follow(pool, log)
    await erase(store, followed)
    await follow(pool, log)
    await erase(store, behind)  # the log has lost what the live tables still tell
    verified = await verify(pool, log, PROJECTIONS)
    assert [(one.ok, one.difference) for one in verified] == [(True, None)] * len(TABLES)
    await rebuild(pool, log, PROJECTIONS)
    assert [len(table) for table in (await contents(pool)).values()] == [1, 4, 1, 9, 3, 1]
    assert all(one.ok for one in await verify(pool, log, PROJECTIONS))


@pytest.mark.requirement("REBUILD", "ERASE")
async def test_a_rebuild_that_was_broken_off_keeps_nothing_of_what_was_erased(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    def break_off(_: int) -> None:
        raise KeyboardInterrupt

    erased, kept = await many(store, 2)
    await follow(pool, log)
    with pytest.raises(KeyboardInterrupt):
        await rebuild(pool, log, PROJECTIONS, watch=Told(break_off))
    await erase(store, erased)
    (due_now,) = await due_erasures(pool, limit=10)
    await forget_rows(pool, due_now)
    for table in TABLES:
        left = await rows(pool, f"SELECT DISTINCT conversation_id FROM rebuilding.{table}")
        assert left == [(kept.conversation_id,)]
    watch = Told()
    await rebuild(pool, log, PROJECTIONS, watch=watch)
    assert len(watch.resumed_at) == len(TABLES)
    assert all(one.ok for one in await verify(pool, log, PROJECTIONS))
    assert [len(table) for table in (await contents(pool)).values()] == [1, 4, 1, 5, 3, 1]


@pytest.mark.requirement("VERIFY")
@pytest.mark.parametrize(
    ("change", "column", "live", "rebuilt"),
    [
        ("UPDATE messages SET content = 'Hi' WHERE message_id = '{}'", "content", "Hi", "Hello"),
        ("UPDATE messages SET token_count = 1 WHERE message_id = '{}'", "token_count", "1", None),
        ("DELETE FROM messages WHERE message_id = '{}'", None, "(no such row)", "(a row)"),
        (
            "INSERT INTO messages SELECT '{}-', conversation_id, account_id, role, content, token_count,"
            " created_at, trace_id, position FROM messages LIMIT 1",
            None,
            "(a row)",
            "(no such row)",
        ),
    ],
)
async def test_the_first_difference_is_named(
    store: ConversationStore,
    log: Log,
    pool: Pool,
    change: str,
    column: str | None,
    live: str,
    rebuilt: str | None,
) -> None:
    await many(store, 3)
    await follow(pool, log)
    ((changed,),) = await rows(
        pool, "SELECT message_id FROM messages WHERE content = 'Hello' ORDER BY position OFFSET 1 LIMIT 1"
    )
    async with connection(pool) as conn:
        await conn.execute(change.format(changed).encode())
    one, other = await verify(pool, log, [messages.PROJECTION, conversations.PROJECTION])
    assert other.ok
    assert one.difference is not None
    key = changed + "-" * change.startswith("INSERT")
    assert (one.difference.table, one.difference.key) == ("messages", {"message_id": key})
    assert (one.difference.column, one.difference.live, one.difference.rebuilt) == (column, live, rebuilt)
    assert await shadows(pool) == []


@pytest.mark.requirement("VERIFY")
async def test_a_column_too_many_is_named(store: ConversationStore, log: Log, pool: Pool) -> None:
    wider = messages.PROJECTION.tables.replace("trace_id text", "words integer, trace_id text")
    await many(store, 1)
    await rebuild(pool, log, [replace(messages.PROJECTION, tables=wider)])
    (one,) = await verify(pool, log, [messages.PROJECTION])
    assert one.difference is not None
    assert (one.difference.column, one.difference.live, one.difference.rebuilt) == ("words", "integer", None)
    await rebuild(pool, log, [messages.PROJECTION])
    assert (await verify(pool, log, [messages.PROJECTION]))[0].ok


def replay(database_url: str, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    result = CliRunner().invoke(app, ["replay", *arguments], env={"AGENTCHAT_DATABASE_URL": database_url})
    if isinstance(result.exception, StackError):
        return result.exception.exit_code, result.stdout, result.stderr + str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.requirement("VERIFY", "REBUILD")
async def test_parked_events_are_told(
    store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str
) -> None:
    poisoned = await told(store, *turn("poisoned", "No\x00thing", "Hi"))
    await many(store, 1)
    await follow(pool, log)
    for _ in range(2):
        (one,) = await verify(pool, log, [messages.PROJECTION])
        assert one.ok
        found = [(each.live, each.conversation_id) for each in one.parked]
        assert found == [(True, poisoned.conversation_id), (False, poisoned.conversation_id)]
        code, _, said = await asyncio.to_thread(replay, migrated_database_url, "rebuild", "messages")
        assert code == 0
        assert f"of conversation {poisoned.conversation_id}: " in said
        assert "thing" not in said
    code, out, said = await asyncio.to_thread(replay, migrated_database_url, "verify", "messages", "--json")
    assert (code, json.loads(out)[0]["difference"]) == (0, None)
    assert said.count("messages: ") == 2


@pytest.mark.requirement("REBUILD", "VERIFY")
async def test_the_commands(
    store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str
) -> None:
    async def command(*arguments: str) -> tuple[int, str, str]:
        return await asyncio.to_thread(replay, migrated_database_url, *arguments)

    await many(store, 2)
    code, _, said = await command("verify", "usage")
    assert code == 1
    assert "agentchat replay rebuild usage" in said
    code, out, said = await command("rebuild")
    assert (code, said) == (0, "")
    assert f"position {await log.head():,}" in out
    assert (await command("verify"))[0] == 0
    async with connection(pool) as conn:
        await conn.execute("UPDATE runs SET rounds = 40 WHERE state = 'failed'")
    code, out, said = await command("verify", "runs", "tools")
    assert code == 1
    assert "differs" in out
    assert "first difference: runs, trace_id=" in said
    assert "column rounds: live '40', rebuilt '1'" in said


@pytest.mark.requirement("REBUILD", "VERIFY")
@pytest.mark.parametrize("command", ["rebuild", "verify"])
def test_a_read_model_that_there_is_not_is_refused(migrated_database_url: str, command: str) -> None:
    code, out, said = replay(migrated_database_url, command, "messages", "nothing")
    assert (code, out) == (2, "")
    assert said == f"there is no read model 'nothing'; there are {', '.join(TABLES)}"
