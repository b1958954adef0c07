"""A long conversation is gone at once for every reader, its rows leave in pieces, and what it cost stays."""

import asyncio

import psycopg
import pytest
from msgspec.structs import replace

from administration.admin_conversations import deletions
from contracts.ids import new_id, new_unlisted_id
from conversations.aggregate.conversation import Conversation, evolve_all
from conversations.aggregate.run_usage import MAX_SPENT, spent_of
from conversations.database import server_now
from conversations.erased_rows import (
    FIRST_PIECE,
    PIECE,
    delete_old_tombstones,
    erase_piece,
    unfinished_erasures,
)
from conversations.erasures import due_erasures, end_pass, note_progress
from conversations.errors import VersionConflict
from conversations.event_store.store import ConversationStore
from conversations.projections.read_models import PROJECTIONS
from conversations.projections.usage_table import lines_of
from conversations.queries.find_run import find_run, load_run
from conversations.queries.finding_approvals import find_approval
from conversations.queries.shown_history import find_continued
from conversations.queries.spent_by_runs import spent_by_runs
from conversations.queries.threads import find_thread, messages_of, summary_of
from conversations.queries.unlisted import unlisted
from runtime.postgres import Pool, connection
from tests.administrator import administrator
from tests.conversations.given import (
    ACCOUNT,
    ERASED,
    LATER,
    answered,
    asked,
    began,
    failed,
    held,
    started,
    trace,
    turn,
)
from tests.conversations.read_models import Storage

_RUNS = (FIRST_PIECE + 2 * PIECE) // 6 + 1


async def begun(store: ConversationStore, conversation_id: str) -> Conversation:
    return await store.append(Conversation(conversation_id=conversation_id), [began()])


async def long_thread(store: ConversationStore, thread: Conversation) -> Conversation:
    """With three pieces and more of events added; the first run of these is `long-0`."""
    for first in range(0, _RUNS, 100):
        words = range(first, min(first + 100, _RUNS))
        events = [event for word in words for event in turn(f"long-{word}", "Hello", "Hi")]
        thread = await store.append(thread, events)
    return thread


async def is_open(pool: Pool, trace_id: str) -> bool:
    async with connection(pool) as conn:
        return await (await conn.execute("SELECT run_is_open(%s)", [trace_id])).fetchone() == (True,)


async def rows_left(pool: Pool, conversation_id: str) -> int:
    async with connection(pool) as conn:
        query = "SELECT count(*) FROM conversation_events WHERE originator_id = %s"
        row = await (await conn.execute(query, [conversation_id])).fetchone()
    assert row is not None
    return int(row[0])


async def progress(pool: Pool, conversation_id: str) -> tuple[int, int]:
    """How many rows and how many copies are left."""
    found = {each.conversation_id: each for each in await unfinished_erasures(pool, limit=100)}
    return found[conversation_id].rows_left, found[conversation_id].copies_left


async def finish(pool: Pool) -> int:
    pieces = 0
    while await erase_piece(pool):
        pieces += 1
    return pieces


async def test_no_reader_sees_what_is_left_of_its_rows(storage: Storage) -> None:
    thread = await long_thread(storage.store, await begun(storage.store, new_unlisted_id()))
    first = trace("long-0")
    await storage.store.append(thread, [ERASED])
    id_ = thread.conversation_id
    assert await rows_left(storage.pool, id_) > 2 * PIECE
    assert await find_thread(storage.pool, id_) is None
    page = await messages_of(storage.pool, id_, after=0, until=10**6, limit=10, max_bytes=10**6)
    assert page.messages == ()
    assert await summary_of(storage.pool, id_, 10**6) is None
    assert await find_run(storage.pool, first) is None
    assert await load_run(storage.pool, first) is None
    assert [each.topic for each in await storage.log.rows_of_run(id_, first)] == ["conversation_erased.v1"]
    assert not await storage.log.is_under_way(id_, first)
    assert [each.topic for each in await storage.log.rows(id_)] == ["conversation_erased.v1"]
    assert await storage.log.at_versions([(id_, 1), (id_, 2)]) == []
    assert await storage.log.accounts_of([id_]) == {id_: ACCOUNT}
    assert id_ not in {each.conversation_id async for each in unlisted(storage.pool)}
    (erased,) = [each for each in await storage.log.read(0, 10**6) if each.conversation_id == id_]
    assert erased.topic == "conversation_erased.v1"
    with pytest.raises(VersionConflict):
        await storage.store.append(Conversation(conversation_id=id_, version=3), [asked("late")])
    await finish(storage.pool)


async def test_a_run_an_approval_and_a_shown_history_are_not_found_by_their_own_ids(storage: Storage) -> None:
    shown = "ab" * 32
    run = [asked("p"), started("p", shown_sha256=shown), *held("p")]
    thread = await storage.store.append(Conversation(conversation_id=new_id()), [began(), *run])
    assert await find_approval(storage.pool, "approval-p-call") is not None
    thread = await storage.store.append(thread, answered("Hi", "p"))
    assert await find_continued(storage.pool, shown, "Hi", "Hello") is not None
    thread = await storage.store.append(thread, [asked("r"), started("r")])
    assert await is_open(storage.pool, trace("r"))
    thread = await long_thread(storage.store, thread)
    await storage.store.append(thread, [ERASED])
    assert await rows_left(storage.pool, thread.conversation_id) > PIECE
    assert await find_approval(storage.pool, "approval-p-call") is None
    assert await find_continued(storage.pool, shown, "Hi", "Hello") is None
    assert not await is_open(storage.pool, trace("r"))
    await finish(storage.pool)


async def test_its_rows_go_in_pieces_which_name_every_position_and_run(storage: Storage) -> None:
    thread = await long_thread(storage.store, await begun(storage.store, new_id()))
    id_ = thread.conversation_id
    async with connection(storage.pool) as conn:
        query = "SELECT notification_id FROM conversation_events WHERE originator_id = %s ORDER BY 1"
        before = [each for (each,) in await (await conn.execute(query, [id_])).fetchall()]
    await storage.store.append(thread, [ERASED])
    left = len(before) + 1 - FIRST_PIECE
    assert await rows_left(storage.pool, id_) == left
    assert await progress(storage.pool, id_) == (left - 1, FIRST_PIECE)
    while await erase_piece(storage.pool):
        left = max(1, left - PIECE)
        assert await rows_left(storage.pool, id_) == left
        assert await progress(storage.pool, id_) == (left - 1, len(before) + 1 - left)
    assert left == 1
    pieces = [each for each in await due_erasures(storage.pool, limit=100) if each.conversation_id == id_]
    assert [each.piece for each in pieces] == list(range(len(pieces)))
    assert sorted(position for each in pieces for position in each.positions) == before
    runs = {trace(f"long-{word}") for word in range(_RUNS)}
    assert {each for piece in pieces for each in piece.trace_ids} >= runs
    await note_progress(storage.pool, pieces[2], 5)
    again = {
        each.piece: each
        for each in await due_erasures(storage.pool, limit=100)
        if each.conversation_id == id_
    }
    assert [again[number].forgotten for number in range(len(pieces))] == [0, 0, 5, *[0] * (len(pieces) - 3)]
    for each in pieces[1:]:
        await end_pass(storage.pool, each)
    assert [
        each.piece for each in await due_erasures(storage.pool, limit=100) if each.conversation_id == id_
    ] == [0]


async def test_an_operator_sees_what_is_left(storage: Storage) -> None:
    thread = await long_thread(storage.store, await begun(storage.store, new_id()))
    await storage.store.append(thread, [ERASED])
    listed = await deletions(administrator(storage.pool))
    (found,) = [each for each in listed if each.conversation_id == thread.conversation_id]
    assert (found.rows_left, found.copies_left) == (thread.version - FIRST_PIECE, FIRST_PIECE)
    await finish(storage.pool)


async def test_two_that_delete_at_once_and_one_that_is_killed_leave_nothing(storage: Storage) -> None:
    threads = [await long_thread(storage.store, await begun(storage.store, new_id())) for _ in range(2)]
    for thread in threads:
        await storage.store.append(thread, [ERASED])
    connect = psycopg.AsyncConnection.connect
    async with await connect(storage.url) as killed, await connect(storage.url) as other:
        await killed.execute("SELECT erase_piece()")
        await other.execute("SELECT erase_piece()")
        assert not await erase_piece(storage.pool), "both are being worked on"
        await killed.rollback()
    await asyncio.gather(finish(storage.pool), finish(storage.pool))
    await finish(storage.pool)
    for thread in threads:
        assert await rows_left(storage.pool, thread.conversation_id) == 1


async def test_old_tombstones_are_deleted(storage: Storage) -> None:
    """Not those of an erasure that is unfinished, nor the newest row of the log."""
    old, unfinished, young = [await begun(storage.store, new_id()) for _ in range(3)]
    for thread in (old, unfinished):
        erased = replace(ERASED, at="2020-01-01T00:00:00.000000Z")
        await storage.store.append(thread, [erased])
    await storage.store.append(young, [replace(ERASED, at=await server_now(storage.pool))])
    async with await psycopg.AsyncConnection.connect(storage.url) as owner:
        await owner.execute("DELETE FROM erasures WHERE conversation_id <> %s", [unfinished.conversation_id])
    while await delete_old_tombstones(storage.pool, most=1):
        pass
    assert await rows_left(storage.pool, old.conversation_id) == 0
    assert await rows_left(storage.pool, unfinished.conversation_id) == 1
    assert await rows_left(storage.pool, young.conversation_id) == 1


async def test_nobody_can_name_what_is_to_be_deleted(storage: Storage) -> None:
    thread = await storage.store.append(
        Conversation(conversation_id=new_id()), [began(), asked("a"), started("a")]
    )
    id_ = thread.conversation_id
    for statement in (
        f"INSERT INTO unfinished_erasures (conversation_id, version, position, below) VALUES ('{id_}',9,9,9)",
        f"SELECT delete_newest_events('{id_}', 9, 9, 0, 9)",
        "DELETE FROM unfinished_erasures",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            async with connection(storage.pool) as conn:
                await conn.execute(statement.encode())
    async with connection(storage.pool) as conn:
        assert await (await conn.execute("SELECT erase_piece()")).fetchone() == (None,)
    assert await rows_left(storage.pool, id_) == 3


MONTH = LATER[:7]


async def rows_in(storage: Storage, table: str, conversation_id: str) -> int:
    ((count,),) = await storage.rows(
        f"SELECT count(*) FROM {table} WHERE conversation_id = %s", conversation_id
    )
    return int(count)


async def test_it_is_what_the_fold_says_wherever_the_read_model_is(storage: Storage) -> None:
    first = [began(), *turn("s-a", "Hello", "Hi"), asked("s-b"), started("s-b")]
    thread = await storage.store.append(Conversation(conversation_id=new_id()), first)
    for follows in (False, True):
        if follows:
            await storage.follow()
        assert await spent_by_runs(storage.pool, storage.log, thread.conversation_id, ACCOUNT) == spent_of(
            thread
        )
        word = f"s-later-{follows}"
        thread = await storage.store.append(
            thread, [failed("s-b")] if not follows else turn(word, "Hello", "Hi")
        )
        assert await spent_by_runs(storage.pool, storage.log, thread.conversation_id, ACCOUNT) == spent_of(
            thread
        )
    assert len(spent_of(thread)) == 3


async def test_many_runs_are_few_entries_and_the_tokens_are_counted_the_same(storage: Storage) -> None:
    thread = await storage.store.append(Conversation(conversation_id=new_id()), [began()])
    for first in range(0, MAX_SPENT + 100, 100):
        words = range(first, first + 100)
        thread = await storage.store.append(
            thread, [each for word in words for each in turn(f"m-{word}", "Hello", "Hi")]
        )
    await storage.follow()
    thread = await storage.store.append(
        thread, [*turn("m-late", "Hello", "Hi"), asked("m-bad"), started("m-bad")]
    )
    thread = await storage.store.append(thread, [failed("m-bad")])
    before = await lines_of(storage.pool, MONTH, ACCOUNT)
    spent = await spent_by_runs(storage.pool, storage.log, thread.conversation_id, ACCOUNT)
    apart = spent_of(evolve_all(thread, ()))
    assert len(apart) == MAX_SPENT + 102
    assert sum(each.runs for each in spent) == len(apart)
    assert sum(each.usage.total for each in spent) == sum(each.usage.total for each in apart)
    assert len(spent) < 10
    await storage.follow()
    whole = await lines_of(storage.pool, MONTH, ACCOUNT)
    await storage.store.append(thread, [replace(ERASED, spent=spent)])
    await storage.follow()
    after = await lines_of(storage.pool, MONTH, ACCOUNT)
    assert sum(each.total for each in after) == sum(each.total for each in whole)
    assert sum(each.total for each in whole) > sum(each.total for each in before)
    assert await rows_in(storage, "usage", thread.conversation_id) == len(spent)
    for table in ("messages", "runs", "tools"):
        assert await rows_in(storage, table, thread.conversation_id) == 0
    assert [each.difference for each in await storage.verify()] == [None] * len(PROJECTIONS)


async def test_of_a_few_runs_each_stays_apart_after_the_erasure(storage: Storage) -> None:
    thread = await storage.store.append(
        Conversation(conversation_id=new_id()),
        [began(), *turn("k-a", "Hello", "Hi"), *turn("k-b", "Hello", "Hi")],
    )
    for first in range(0, 1000, 500):  # so many events that they are deleted in pieces
        described = [replace(asked(f"k-{first}-{number}"), role="assistant") for number in range(500)]
        thread = await storage.store.append(thread, described)
    await storage.follow()
    assert await rows_in(storage, "messages", thread.conversation_id) == 1004
    await storage.erase(thread)
    await storage.follow()
    assert await rows_in(storage, "messages", thread.conversation_id) == 0
    assert await rows_in(storage, "usage", thread.conversation_id) == 2
