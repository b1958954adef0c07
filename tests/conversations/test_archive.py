"""Cold conversations leave the log for files, come back as they were, and their erasure reaches the files."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import psycopg
import pytest
from msgspec.structs import replace

from conversations.aggregate.conversation import Conversation
from conversations.archive import archive_work, archiving
from conversations.archive.archive import Archive, file_name
from conversations.archive.archive_store import FolderStore
from conversations.archive.archive_tables import GRACE_SECONDS
from conversations.archive.archive_work import ArchiveWork
from conversations.archive.archiving import Archiver
from conversations.archive.parquet_file import ArchivedRow, decode, encode
from conversations.chain.auditing import Scope, audit
from conversations.chain.links import LINK_BYTES, link_of
from conversations.errors import NotRecalled, UnreadableArchive, VersionConflict
from conversations.queries.find_run import load_run
from conversations.queries.threads import find_thread, messages_of, readable
from runtime import metrics
from runtime.postgres import DatabaseUnavailable, open_pool
from tests.conversations.archived import ColdStorage, at, days_ago
from tests.conversations.given import ERASED, asked, started, trace, turn


@contextlib.asynccontextmanager
async def recalling(cold: ColdStorage) -> AsyncIterator[None]:
    """While the block runs, requests are served as the projector serves them."""

    async def serve() -> None:
        while True:
            await cold.work.recall()
            await asyncio.sleep(0.01)

    serving = asyncio.create_task(serve())
    try:
        yield
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def test_what_is_cold_leaves_the_log_and_comes_back_with_the_same_bytes(cold: ColdStorage) -> None:
    thread, other, young = await cold.chat("a", "b"), await cold.chat("c"), await cold.chat("d", days=100)
    before = await cold.rows("SELECT * FROM conversation_events ORDER BY notification_id")
    moved = await cold.moved()
    assert (moved.conversations, moved.files, moved.left_in_log) == (2, 1, 0)
    assert await cold.rows_left(thread, other) == 0
    assert await cold.rows_left(young) == young.version
    async with recalling(cold):
        found = await find_thread(cold.pool, thread.conversation_id)
        assert found is not None
        assert (found.version, found.in_log) == (thread.version, False)
        await readable(cold.pool, found)
        page = await messages_of(
            cold.pool, thread.conversation_id, after=0, until=found.version, limit=10, max_bytes=10**6
        )
        assert [each.message.content for each in page.messages] == ["Ask a", "Reply a", "Ask b", "Reply b"]
        loaded = await load_run(cold.pool, trace("c"))
    assert loaded is not None
    assert loaded[0] == other.conversation_id
    head = await cold.log.head()
    after = await cold.rows("SELECT * FROM conversation_events ORDER BY notification_id")
    assert after[: len(before)] == before
    assert (await audit(cold.pool, cold.log, Scope(last=head))).broken == []


async def test_a_conversation_in_use_stays(cold: ColdStorage) -> None:
    thread = await cold.chat("a")
    await cold.store.append(thread, at(days_ago(400), [asked("b"), started("b")]))
    described, erased = await cold.chat("c"), await cold.chat("d")
    await cold.store.append(erased, [ERASED])
    await cold.chat("e")
    # The newest event says where the log ends, however old it is.
    moved = await cold.moved()
    assert moved.conversations == 2
    assert await cold.rows_left(thread) > 0
    assert await cold.rows_left(described) == 0
    with pytest.raises(ValueError, match="35 days"):
        await cold.archived(days=34)


async def test_an_append_before_the_rows_are_deleted_takes_it_out_of_the_archive(cold: ColdStorage) -> None:
    thread = await cold.chat("a")
    assert (await cold.archived()).conversations == 1
    thread = await cold.store.append(thread, turn("b", "More", "Yes"))
    await cold.moved()
    assert await cold.rows_left(thread) == thread.version
    while await cold.work.rewrite():
        pass
    assert cold.files.names() == []


async def test_a_new_message_goes_on_after_what_came_back(cold: ColdStorage) -> None:
    thread = await cold.chat("a")
    await cold.moved()
    with pytest.raises(VersionConflict):  # by a worker that has had its state for weeks
        await cold.store.append(thread, [asked("b")])
    with pytest.raises(VersionConflict):
        await cold.store.append(
            Conversation(conversation_id=thread.conversation_id), turn("b", "More", "Yes")
        )
    async with recalling(cold):
        loaded = await cold.store.load(thread.conversation_id)
    assert loaded.version == thread.version
    assert (await cold.store.append(loaded, turn("b", "More", "Yes"))).version == thread.version + 6


async def test_an_erasure_reaches_the_file(cold: ColdStorage) -> None:
    thread, kept = await cold.chat("secret"), await cold.chat("kept")
    await cold.moved()
    assert b"Ask secret" in cold.contents()
    async with recalling(cold):
        found = await cold.log.newest_run(thread.conversation_id)
    await cold.store.append(found, [ERASED])
    assert await cold.work.rewrite() == 1
    assert await cold.work.rewrite() == 0
    assert b"Ask secret" not in cold.contents()
    assert b"Ask kept" in cold.contents()
    assert len(cold.files.names()) == 1
    async with recalling(cold):
        assert await find_thread(cold.pool, thread.conversation_id) is None
        assert (await find_thread(cold.pool, kept.conversation_id)) is not None


async def test_a_file_that_was_changed_brings_nothing_back(cold: ColdStorage) -> None:
    thread = await cold.chat("a")
    await cold.moved()
    (name,) = cold.files.names()

    rows = decode(cold.files.read(name))
    changed = [replace(row, state=row.state.replace(b"Reply a", b"Reply b")) for row in rows]
    assert changed != rows
    cold.files.write(name, encode(changed))
    async with recalling(cold):
        with pytest.raises(NotRecalled, match="cannot be read from the archive"):
            await cold.log.conversation(thread.conversation_id)
    assert await cold.rows_left(thread) == 0


_LOCK_ENTRIES = "SELECT FROM archived_conversations WHERE conversation_id = ANY(%s) FOR UPDATE"


async def test_recalls_that_fail_hold_up_no_other_and_are_given_up(
    cold: ColdStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_work, "_RECALL_SECONDS", 0.5)
    metrics.start("projector", "projector-1", None)
    *stuck, good = [await cold.chat(word) for word in "abcd"]
    await cold.moved()
    ids = [each.conversation_id for each in stuck]
    async with await psycopg.AsyncConnection.connect(cold.url) as holder, asyncio.timeout(20):
        await holder.execute(
            "SELECT FROM archived_conversations WHERE conversation_id = ANY(%s) FOR UPDATE", [ids]
        )
        for each in (*stuck, good):
            await cold.rows("INSERT INTO archive_recalls VALUES (%s) RETURNING 1", each.conversation_id)
        while not await cold.rows_left(good):
            with pytest.raises(DatabaseUnavailable, match="takes too long"):
                await cold.work.recall()
        assert await cold.rows("SELECT count(*) FROM archive_recalls") == [(len(stuck),)]
        while await cold.rows("SELECT FROM archive_recalls"):
            with contextlib.suppress(DatabaseUnavailable):
                await cold.work.recall()
    assert await cold.rows_left(*stuck) == 0
    shown = metrics.exposition().decode()
    metrics.stop()
    assert 'agentchat_archive_recalls_total{outcome="recalled"} 1.0' in shown
    assert 'agentchat_archive_recalls_total{outcome="failed"} 3.0' in shown


async def test_a_file_whose_beginning_was_changed_brings_nothing_back(cold: ColdStorage) -> None:
    """The rows after the change begin a chain of their own, which ends as that of the log did."""
    thread = await cold.chat("a", "b")
    await cold.moved()
    (name,) = cold.files.names()
    rows = decode(cold.files.read(name))
    previous, forged = rows[0].hash[:-LINK_BYTES], []
    for row in rows[:4]:
        state = row.state.replace(b"Ask a", b"Ask z").replace(b"Reply a", b"Reply z")
        link = link_of(previous, row.conversation_id, row.version, row.position, row.topic, state)
        forged.append(replace(row, state=state, hash=row.hash[:-LINK_BYTES] + link))
        previous = link
    assert forged != rows[:4]
    follows = replace(rows[4], hash=rows[3].hash[-LINK_BYTES:] + rows[4].hash)
    cold.files.write(name, encode([*forged, follows, *rows[5:]]))
    with pytest.raises(UnreadableArchive, match="is not what was archived"):
        await cold.work.bring_back(thread.conversation_id)
    assert await cold.rows_left(thread) == 0


async def test_an_erasure_reaches_the_files_of_two_runs_at_once(
    cold: ColdStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have written the conversation, and one of them has entered it in the index."""
    thread, kept = await cold.chat("secret"), await cold.chat("kept")
    await cold.follow()
    async with open_pool(cold.url, role=None) as owner:
        late = Archiver(owner, cold.files, days=365)
        enter = late._enter

        async def enter_late(name: str, conversations: object) -> set[str]:
            assert (await Archiver(owner, cold.files, days=365).run()).conversations == 2
            return await enter(name, conversations)  # type: ignore[arg-type]

        monkeypatch.setattr(late, "_enter", enter_late)
        assert (await late.run()).left_in_log == 2
    assert len(cold.files.names()) == 2
    await cold.store.append(await cold.store.load(thread.conversation_id), [ERASED])
    while await cold.work.rewrite():
        pass
    assert b"Ask secret" not in cold.contents()
    assert (b"Ask kept" in cold.contents(), len(cold.files.names())) == (True, 1)
    assert await cold.rows_left(kept) == kept.version


class _Killed(Exception):  # noqa: N818 - what happens to it
    """The process that archives ends here."""


class _FullAfterwards(FolderStore):
    def write(self, name: str, data: bytes) -> None:
        super().write(name, data)
        raise _Killed


async def test_a_process_killed_before_the_index_leaves_a_file_that_is_removed(cold: ColdStorage) -> None:
    thread = await cold.chat("a")
    await cold.follow()
    async with open_pool(cold.url, role=None) as owner:
        with pytest.raises(_Killed):
            await Archiver(owner, _FullAfterwards(cold.folder), days=365).run()
    assert len(cold.files.names()) == 1
    assert await cold.work.rewrite() == 0  # it may be at work still
    await cold.aged()
    (cold.folder / f".{cold.files.names()[0]}.partial").write_bytes(b"half of it")
    assert await cold.work.delete_rows() == 0
    assert await cold.work.rewrite() == 1
    assert list(cold.folder.iterdir()) == []
    assert await cold.rows_left(thread) == thread.version


async def test_a_process_killed_amid_the_index_has_archived_what_it_entered(
    cold: ColdStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = [await cold.chat(word) for word in "abc"]
    await cold.follow()
    monkeypatch.setattr(archiving, "_AT_ONCE", 1)
    async with open_pool(cold.url, role=None) as owner:
        archiver = Archiver(owner, cold.files, days=365)
        enter, calls = archiver._enter, 0

        async def enter_once(name: str, conversations: object) -> set[str]:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise _Killed
            return await enter(name, conversations)  # type: ignore[arg-type]

        monkeypatch.setattr(archiver, "_enter", enter_once)
        with pytest.raises(_Killed):
            await archiver.run()
    await cold.aged()
    assert await cold.work.rewrite() == 1
    assert (await cold.work.delete_rows(), await cold.work.delete_rows()) == (threads[0].version, 0)
    assert b"Ask a" in cold.contents()
    assert b"Ask b" not in cold.contents()
    async with recalling(cold):
        for each in threads:
            assert (await cold.log.conversation(each.conversation_id)).version == each.version


async def test_an_older_generation_that_was_left_goes_with_the_next_removal(cold: ColdStorage) -> None:
    threads = [await cold.chat(word) for word in "abc"]
    await cold.moved()
    (name,) = cold.files.names()
    before = cold.files.read(name)
    await cold.work.bring_back(threads[0].conversation_id)
    await cold.work.rewrite()
    assert cold.files.names() == [file_name(name.split(".")[0], 2)]
    cold.files.write(name, before)  # as if it had been killed before it removed it
    await cold.work.bring_back(threads[1].conversation_id)
    await cold.work.rewrite()
    assert cold.files.names() == [file_name(name.split(".")[0], 3)]
    # A database that was restored names a generation that is gone: the newest has all that is left.
    await cold.rows("UPDATE archive_files SET generation = 1 RETURNING name")
    assert await cold.work.bring_back(threads[2].conversation_id)


async def test_a_projector_that_was_stopped_brings_nothing_erased_back_into_a_file(
    cold: ColdStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, secret = await cold.chat("first"), await cold.chat("secret")
    await cold.chat("kept")
    await cold.moved()
    await cold.work.bring_back(first.conversation_id)
    stopped = Archive(cold.pool, cold.files)
    read = stopped.rows_in

    async def stop(name: str, generation: int) -> list[ArchivedRow]:
        rows = await read(name, generation)
        monkeypatch.undo()
        await cold.work.bring_back(secret.conversation_id)
        await cold.store.append(await cold.store.load(secret.conversation_id), [ERASED])
        assert await cold.work.rewrite() == 1
        return rows

    monkeypatch.setattr(stopped, "rows_in", stop)
    assert await ArchiveWork(cold.pool, stopped).rewrite() == 1
    assert b"Ask secret" not in cold.contents()
    assert b"Ask kept" in cold.contents()
    assert len(cold.files.names()) == 1


async def test_rows_stay_until_readers_of_a_page_are_done(cold: ColdStorage) -> None:
    thread = await cold.chat("a")
    await cold.archived()
    assert GRACE_SECONDS == 60
    assert await cold.work.delete_rows() == 0
    assert await cold.rows_left(thread) == thread.version


async def test_a_long_conversation_goes_and_comes_in_one_piece(cold: ColdStorage) -> None:
    thread = await cold.chat(*(f"w{number}" for number in range(500)))
    short = await cold.chat("short")
    await cold.moved()
    assert thread.version > 2_000
    assert await cold.rows_left(thread, short) == 0
    await cold.work.bring_back(thread.conversation_id)
    assert await cold.rows_left(thread) == thread.version
    assert (await audit(cold.pool, cold.log, Scope(last=await cold.log.head()))).broken == []
