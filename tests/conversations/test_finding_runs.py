"""A run found by its trace, and read alone: whatever its conversation holds before and after it."""

import os

from agentchat.contracts import events, ids
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.find_by_trace import find_run, load_run
from agentchat.runtime.postgres import Pool, acquire_connection, act_as, open_pool
from tests.conversations.given import (
    ACCOUNT,
    ERASED,
    begin,
    build_answer,
    build_conversation_started,
    build_delta,
    build_described,
    build_run_cancelled,
    build_run_failed,
    build_run_started,
    trace,
    turn,
)
from tests.support.proxy import run_proxy

Stored = list[events.Event]


def list_words(count: int) -> list[str]:
    """Of traces that no other test has."""
    return [os.urandom(8).hex() for _ in range(count)]


async def find_thread_of(store: ConversationStore, *runs: Stored) -> str:
    """A thread of these runs; versions count from its beginning, which is 1."""
    told = await store.append(Conversation(conversation_id=ids.make_id()), [build_conversation_started()])
    for run in runs:
        told = await store.append(told, run)
    return told.conversation_id


async def test_of_a_thread_that_went_on_only_the_run_is_read(
    store: ConversationStore, migrated_database_url: str
) -> None:
    large = "x" * 200_000
    before, word, *behind = list_words(6)
    runs = [list(turn(each, large, large)) for each in (before, *behind)]
    runs.insert(1, list(turn(word, "Hello", "Hi")))
    await find_thread_of(store, *runs)
    async with run_proxy(migrated_database_url) as (proxy, url), open_pool(url) as pool:
        found = await load_run(pool, trace(word))
        assert found is not None
        assert (found[1].state, found[1].user_text, found[1].text) == ("completed", "Hello", "Hi")
        assert 0 < proxy.received < 50_000


async def test_open_runs_descriptions_only_count_as_versions(
    store: ConversationStore, migrated_database_url: str
) -> None:
    (word,) = list_words(1)
    thread = await find_thread_of(store, [*begin(word), *build_described(1000)])
    async with run_proxy(migrated_database_url) as (proxy, url), open_pool(url) as pool:
        log = Log(pool)
        newest = await log.load_newest_run(thread)
        assert (newest.version, newest.account_id) == (1003, ACCOUNT)
        assert newest.active is not None
        found = await load_run(pool, trace(word))
        assert found is not None
        assert newest.active == found[1]
        assert 0 < proxy.received < 20_000
        later = await store.append(await store.load(thread), build_delta("Hi", word))
        more = await log.read_run_rows(thread, trace(word), 3)
        assert [row.version for row in more] == [later.version - 1, later.version]


async def test_a_run_is_read_from_its_message_until_its_own_end(store: ConversationStore, pool: Pool) -> None:
    log = Log(pool)
    ends = (
        lambda word: list(build_answer("Hi", word)),
        lambda word: [build_run_failed(word)],
        lambda word: [build_run_cancelled(word)],
    )
    for end in ends:
        before, word, behind = list_words(3)
        again = build_run_started(word, 2)  # another worker went on with it
        run: Stored = [*begin(word), again, *build_delta("Hi", word), *end(word)]
        thread = await find_thread_of(store, list(turn(before, "a", "b")), run, list(turn(behind, "c", "d")))
        begun_at = 8  # after the beginning and the six events of the first run
        found = await find_run(pool, trace(word))
        assert found is not None
        assert found.begun_at == begun_at
        for after in (0, begun_at - 1):
            assert [row.event for row in await log.read_run_rows(thread, trace(word), after)] == run
        assert [row.event for row in await log.read_run_rows(thread, trace(word), begun_at + 1)] == run[2:]
        assert not await log.is_under_way(thread, trace(word))


async def test_a_run_under_way_is_read_as_far_as_it_is(store: ConversationStore, pool: Pool) -> None:
    log = Log(pool)
    before, word = list_words(2)
    thread = await find_thread_of(store, list(turn(before, "a", "b")))
    assert await log.read_run_rows(thread, trace(word)) == []
    begun: Stored = [*begin(word)]
    told = await store.append(await store.load(thread), begun)
    assert [row.event for row in await log.read_run_rows(thread, trace(word))] == begun
    assert await log.is_under_way(thread, trace(word))
    assert not await log.is_under_way(thread, trace(before))
    more: Stored = [*build_delta("Hi", word)]
    await store.append(told, more)
    assert [row.event for row in await log.read_run_rows(thread, trace(word), told.version)] == more


async def test_a_tool_runner_is_told_whether_a_run_is_open(
    store: ConversationStore, migrated_database_url: str
) -> None:
    """Begun and not ended, whichever the end; of an erased conversation none is, though it has no end."""
    *ended, unknown, erased, open_ = list_words(6)
    ends: tuple[Stored, ...] = (
        [*build_delta("Hi", ended[0]), *build_answer("Hi", ended[0])],
        [build_run_failed(ended[1])],
        [build_run_cancelled(ended[2])],
    )
    for word, end in zip(ended, ends, strict=True):
        await find_thread_of(store, [*begin(word), *end])
    await find_thread_of(store, [*begin(open_)])
    gone = await store.load(await find_thread_of(store, [*begin(erased)]))
    await store.append(gone, [ERASED])
    tool_runner = act_as(migrated_database_url, "tool_runner")
    async with open_pool(tool_runner) as pool, acquire_connection(pool) as conn:
        for word in (*ended, unknown, erased, open_):
            found = await conn.execute("SELECT 1 FROM open_run_traces WHERE trace_id = %s", [trace(word)])
            assert (await found.fetchone() is not None) == (word == open_)
