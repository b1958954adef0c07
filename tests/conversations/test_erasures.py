"""To append ConversationErased is to erase: nothing earlier is left, and nothing later gets in."""

import psycopg
import pytest
from msgspec.structs import replace

from agentchat.administration.admin_conversations import list_deletions
from agentchat.contracts.examples import FILE
from agentchat.contracts.ids import make_id, make_unlisted_id
from agentchat.contracts.ownership import Owner
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.erasures import (
    PROJECTION,
    Erasure,
    delete_old_tombstones,
    finish_chunk,
    list_due_erasures,
    load_chunk,
)
from agentchat.conversations.errors import UnreadableEvent, VersionConflict
from agentchat.conversations.leases.leases import Leases
from agentchat.conversations.leases.waiting_line import WaitingLine
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.conversations.projections.read_models import PROJECTIONS
from agentchat.conversations.queries.find_approvals import find_approval
from agentchat.conversations.queries.find_by_history import find_continued
from agentchat.conversations.queries.find_by_trace import find_run, load_run
from agentchat.conversations.queries.read_thread import find_thread, list_messages, load_summary
from agentchat.conversations.queries.unlisted_conversations import list_unlisted
from agentchat.runtime.postgres import Pool
from tests.administrator import administrator
from tests.conversations.given import (
    ACCOUNT,
    AT,
    ERASED,
    begin,
    build_answer,
    build_conversation_started,
    build_held_call,
    build_run_started,
    build_user_message,
    trace,
    turn,
)
from tests.conversations.read_models import REMOVE_CONTENT, Storage

_TOMBSTONE = "conversation_erased.v1"
_IS_OPEN = "SELECT EXISTS (SELECT FROM open_run_traces WHERE trace_id = %s)"


async def load_erasure(storage: Storage, conversation_id: str) -> Erasure | None:
    """The one that the projector has listed, if it is due."""
    await storage.follow((*PROJECTIONS, PROJECTION))
    return await list_due(storage, conversation_id)


async def list_due(storage: Storage, conversation_id: str, *, fed: int = 10**9) -> Erasure | None:
    found = await list_due_erasures(storage.pool, fed, limit=1000)
    return next((each for each in found if each.conversation_id == conversation_id), None)


async def count_rows(storage: Storage, conversation_id: str) -> list[tuple[int, str]]:
    query = "SELECT notification_id, topic FROM conversation_events WHERE originator_id = %s ORDER BY 1"
    return [(position, topic) for position, topic in await storage.rows(query, conversation_id)]


async def test_no_reader_sees_an_event_of_it(storage: Storage) -> None:
    shown, id_ = "ab" * 32, make_unlisted_id()
    run = [build_conversation_started(), *begin("p", shown_sha256=shown), *build_held_call("p")]
    thread = await storage.store.append(Conversation(conversation_id=id_), run)
    assert await find_approval(storage.pool, "approval-p-call") is not None
    thread = await storage.store.append(thread, [*build_answer("Hi", "p"), *begin("r")])
    assert await find_continued(storage.pool, shown, "Hi", "Hello") is not None
    assert await storage.rows(_IS_OPEN, trace("r")) == [(True,)]
    erased = await storage.store.append(thread, [ERASED])
    assert len(await count_rows(storage, id_)) == erased.version, "nothing is deleted yet"
    assert await find_approval(storage.pool, "approval-p-call") is None
    assert await find_continued(storage.pool, shown, "Hi", "Hello") is None
    assert await storage.rows(_IS_OPEN, trace("r")) == [(False,)]
    assert await find_thread(storage.pool, id_) is None
    page = await list_messages(storage.pool, id_, after=0, until=10**6, limit=10, max_bytes=10**6)
    assert page.messages == ()
    assert await load_summary(storage.pool, id_, 10**6) is None
    assert await find_run(storage.pool, trace("p")) is None
    assert await load_run(storage.pool, trace("p")) is None
    assert [each.topic for each in await storage.log.read_run_rows(id_, trace("p"))] == [_TOMBSTONE]
    assert not await storage.log.is_under_way(id_, trace("p"))
    assert [each.topic for each in await storage.log.read_rows(id_)] == [_TOMBSTONE]
    assert await storage.log.read_at_versions([(id_, 1), (id_, 2)]) == []
    assert await storage.log.find_owners([id_]) == {id_: Owner(ACCOUNT)}
    assert id_ not in {each.conversation_id async for each in list_unlisted(storage.pool)}
    mine = [each for each in await storage.log.read(0, 10**6) if each.conversation_id == id_]
    assert [each.topic for each in mine if not each.erased] == [_TOMBSTONE]
    loaded = await storage.store.load(id_)
    assert (loaded.version, loaded.erased, loaded.runs) == (erased.version, True, ())


async def test_its_rows_go_in_chunks_the_newest_first(storage: Storage) -> None:
    asked = build_user_message("b", attachments=(FILE,))
    thread = await storage.add(*turn("a", "Hello", "Hi"), asked, build_run_started("b"))
    before = [position for position, _ in await count_rows(storage, thread.conversation_id)]
    await storage.store.append(thread, [ERASED])
    id_ = thread.conversation_id
    assert await list_due(storage, id_) is None, "the ledger of runs has not come to it"
    erasure = await load_erasure(storage, id_)
    assert erasure is not None
    assert await list_due(storage, id_, fed=before[-1]) is None, "EVENTS has not come to it"
    listed = await list_deletions(administrator(storage.pool))
    assert [each.rows_left for each in listed if each.conversation_id == id_] == [len(before)]
    removed: list[int] = []
    file_ids: list[str] = []
    while erasure is not None:
        chunk = await load_chunk(storage.pool, erasure, 3)
        file_ids += chunk.file_ids
        removed = [*chunk.positions, *removed]
        await finish_chunk(storage.pool, chunk)
        await finish_chunk(storage.pool, chunk)  # by another projector, which is behind
        assert [at for at, _ in await count_rows(storage, id_)][:-1] == before[: len(before) - len(removed)]
        erasure = await list_due(storage, id_)
    assert removed == before
    assert file_ids == [FILE.file_id]
    assert [topic for _, topic in await count_rows(storage, id_)] == [_TOMBSTONE]


async def test_whoever_still_appends_is_refused_at_every_version(storage: Storage) -> None:
    thread = await storage.add(*turn("a", "Hello", "Hi"), *begin("b"))
    await storage.store.append(thread, [ERASED])
    for version in (0, 3, thread.version, thread.version + 1, thread.version + 9):
        late = Conversation(conversation_id=thread.conversation_id, version=version)
        with pytest.raises(VersionConflict):
            await storage.store.append(late, [build_user_message("c")])
        with pytest.raises(VersionConflict):
            await storage.store.append(late, [replace(ERASED, trace_id=trace("another"))])


async def test_a_conversation_that_cannot_be_read_can_be_erased(storage: Storage) -> None:
    thread = await storage.add()
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
    thread = await storage.add(*begin("r"))
    leases, line = Leases(storage.pool, "worker"), WaitingLine(storage.pool, "worker")
    await storage.store.append(thread, [ERASED])
    for passes in (0, 1):
        await leases.acquire(trace("r"))
        await line.join(thread.conversation_id, trace("r"), AT, ACCOUNT)
        erasure = await load_erasure(storage, thread.conversation_id)
        assert erasure is not None
        assert (erasure.passes, trace("r") in erasure.trace_ids) == (passes, passes > 0)
        await finish_chunk(storage.pool, await load_chunk(storage.pool, erasure, 100))
        for table in ("run_leases", "waiting_line"):
            assert await storage.rows(f"SELECT 1 FROM {table} WHERE trace_id = %s", trace("r")) == []
        assert await load_erasure(storage, thread.conversation_id) is None
        await storage.rows("UPDATE erasures SET due_at = clock_timestamp() RETURNING 1")
    query = "SELECT 1 FROM erasures WHERE conversation_id = %s"
    assert await storage.rows(query, thread.conversation_id) == []


async def test_old_tombstones_are_deleted(storage: Storage) -> None:
    """Not those of an erasure that is unfinished, nor the newest row of the log."""
    old, unfinished, young = [await storage.add() for _ in range(3)]
    for thread in (old, unfinished):
        await storage.store.append(thread, [replace(ERASED, at="2020-01-01T00:00:00.000000Z")])
    await storage.store.append(young, [replace(ERASED, at=await read_server_time(storage.pool))])
    await storage.follow((*PROJECTIONS, PROJECTION))
    async with storage.as_owner() as owner:
        await owner.execute("DELETE FROM erasures WHERE conversation_id <> %s", [unfinished.conversation_id])
    while await delete_old_tombstones(storage.pool, most=1):
        pass
    left = [len(await count_rows(storage, each.conversation_id)) for each in (old, unfinished, young)]
    assert left == [0, 2, 2]


async def test_only_events_of_an_erased_conversation_are_deleted(storage: Storage) -> None:
    kept, gone = await storage.add(build_user_message("k")), await storage.add(build_user_message("g"))
    await storage.store.append(gone, [replace(ERASED, at=await read_server_time(storage.pool))])
    for each in (kept, gone):
        await storage.rows(REMOVE_CONTENT, each.conversation_id)
    assert len(await count_rows(storage, kept.conversation_id)) == kept.version
    assert [topic for _, topic in await count_rows(storage, gone.conversation_id)] == [_TOMBSTONE]


async def test_those_who_wait_are_behind_the_one_who_goes_before_all(pool: Pool) -> None:
    line, conversation_id = WaitingLine(pool, "worker"), make_id()
    await line.join(conversation_id, trace("first"), AT, ACCOUNT)
    assert await line.is_first(conversation_id, trace("first"))
    await line.join_before_all(conversation_id, trace("erase"))
    assert not await line.is_first(conversation_id, trace("first"))
    assert not await line.is_first(conversation_id, trace("newcomer"))
    await line.leave(trace("erase"))
    assert await line.is_first(conversation_id, trace("first"))
