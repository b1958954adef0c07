"""To append ConversationErased is to erase: nothing earlier is left, and nothing later gets in."""

import asyncio

import psycopg
import pytest
from msgspec.structs import replace

from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation
from conversations.erasures import Erasure, due_erasures, end_pass, forget_rows, note_progress
from conversations.errors import UnreadableEvent, VersionConflict
from conversations.event_store.log import open_log
from conversations.leases.leases import Leases
from conversations.leases.waiting_line import WaitingLine
from conversations.projections.conversations_table import conversations_of
from runtime.postgres import Pool
from tests.conversations.given import ACCOUNT, AT, ERASED, asked, started, trace, turn
from tests.conversations.read_models import Storage, follow


async def note_of(pool: Pool, conversation_id: str) -> Erasure | None:
    found = [each for each in await due_erasures(pool, limit=1000) if each.conversation_id == conversation_id]
    return found[0] if found else None


async def test_one_event_is_left_and_what_is_to_be_removed_elsewhere_is_written_down(
    storage: Storage,
) -> None:
    thread = await storage.told(*turn("a", "Hello", "Hi"), asked("b"), started("b"))
    query = "SELECT notification_id, topic FROM conversation_events WHERE originator_id = %s ORDER BY 1"
    before = [position for position, _ in await storage.rows(query, thread.conversation_id)]
    erased = await storage.store.append(thread, [ERASED])
    ((position, topic),) = await storage.rows(query, thread.conversation_id)
    assert topic == "conversation_erased.v1"
    traces = sorted({trace("a"), trace("b")})
    assert await note_of(storage.pool, thread.conversation_id) == Erasure(
        thread.conversation_id, position, before, traces, 0
    )
    loaded = await storage.store.load(thread.conversation_id)
    assert (loaded.version, loaded.erased) == (erased.version, True)
    assert loaded.runs == (())


async def test_whoever_still_appends_is_refused_at_every_version(storage: Storage) -> None:
    thread = await storage.told(*turn("a", "Hello", "Hi"), asked("b"), started("b"))
    await storage.store.append(thread, [ERASED])
    for version in (0, 3, thread.version, thread.version + 1, thread.version + 9):
        late = Conversation(conversation_id=thread.conversation_id, version=version)
        with pytest.raises(VersionConflict):
            await storage.store.append(late, [asked("c")])
        with pytest.raises(VersionConflict):
            await storage.store.append(late, [replace(ERASED, trace_id=trace("another"))])


async def test_appends_that_share_a_transaction_with_a_refused_one_are_stored(storage: Storage) -> None:
    gone = await storage.told()
    others = [await storage.told() for _ in range(10)]
    await storage.store.append(gone, [ERASED])
    outcomes = await asyncio.gather(
        *(storage.store.append(each, [asked(f"w{number}")]) for number, each in enumerate(others)),
        storage.store.append(Conversation(conversation_id=gone.conversation_id, version=5), [asked("late")]),
        return_exceptions=True,
    )
    assert isinstance(outcomes.pop(), VersionConflict)
    assert [each.version for each in outcomes if isinstance(each, Conversation)] == [2] * 10


async def test_a_service_can_remove_events_in_no_other_way(storage: Storage) -> None:
    thread = await storage.told()
    for statement in (
        "DELETE FROM conversation_events",
        "UPDATE conversation_events SET topic = 'conversation_erased.v1'",
        "TRUNCATE conversation_events",
        "ALTER TABLE conversation_events DISABLE TRIGGER ALL",
        "INSERT INTO erasures (conversation_id, position, positions, trace_ids) VALUES ('a', 1, '{}', '{}')",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await storage.rows(statement)
    assert (await storage.store.load(thread.conversation_id)).version == 1


async def test_a_conversation_that_cannot_be_read_can_be_erased(storage: Storage) -> None:
    thread = await storage.told()
    async with await psycopg.AsyncConnection.connect(storage.url) as owner:
        await owner.execute(
            "INSERT INTO conversation_events (originator_id, originator_version, topic, state)"
            " VALUES (%s, 2, 'unheard_of.v9', '\\xff00')",
            [thread.conversation_id],
        )
    with pytest.raises(UnreadableEvent):
        await storage.store.load(thread.conversation_id)
    bare = await storage.store.load_readable(thread.conversation_id)
    assert (bare.account_id, bare.version) == (ACCOUNT, 2)
    await storage.store.append(bare, [ERASED])
    assert (await storage.store.load(thread.conversation_id)).erased


async def test_rows_next_to_the_log_go_too_and_the_second_pass_ends_it(storage: Storage) -> None:
    thread = await storage.told(asked("r"), started("r"))
    await Leases(storage.pool, "worker").acquire(trace("r"))
    await WaitingLine(storage.pool, "worker").join(thread.conversation_id, trace("r"), AT, ACCOUNT)
    await storage.store.append(thread, [ERASED])
    first = await note_of(storage.pool, thread.conversation_id)
    assert first is not None
    await forget_rows(storage.pool, first)
    for table in ("run_leases", "waiting_line"):
        assert await storage.rows(f"SELECT 1 FROM {table} WHERE trace_id = %s", trace("r")) == []
    await note_progress(storage.pool, first, 2)
    going_on = await note_of(storage.pool, thread.conversation_id)
    assert going_on == replace(first, forgotten=2)
    await end_pass(storage.pool, first)
    await note_progress(storage.pool, first, 3)  # by another projector, which is behind
    assert await note_of(storage.pool, thread.conversation_id) is None
    await storage.rows("UPDATE erasures SET due_at = clock_timestamp() RETURNING 1")
    second = await note_of(storage.pool, thread.conversation_id)
    assert second is not None
    assert (second.positions, second.passes, second.forgotten) == (first.positions, 1, 0)
    await end_pass(storage.pool, second)
    assert (
        await storage.rows("SELECT 1 FROM erasures WHERE conversation_id = %s", thread.conversation_id) == []
    )


async def test_a_list_leaves_it_out_before_the_read_model_knows(storage: Storage) -> None:
    thread, other = await storage.told(asked("l")), await storage.told(asked("m"))
    async with open_log(storage.url) as log:
        await follow(storage.pool, log)
    await storage.store.append(thread, [ERASED])
    listed = {row.conversation_id for row in await conversations_of(storage.pool, ACCOUNT, limit=100)}
    assert thread.conversation_id not in listed
    assert other.conversation_id in listed


async def test_those_who_wait_are_behind_the_one_who_goes_before_all(pool: Pool) -> None:
    line, conversation_id = WaitingLine(pool, "worker"), new_id()
    await line.join(conversation_id, trace("first"), AT, ACCOUNT)
    assert await line.is_first(conversation_id, trace("first"))
    await line.go_before_all(conversation_id, trace("erase"))
    assert not await line.is_first(conversation_id, trace("first"))
    assert not await line.is_first(conversation_id, trace("newcomer"))
    await line.leave(trace("erase"))
    assert await line.is_first(conversation_id, trace("first"))
