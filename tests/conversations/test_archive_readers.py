"""Who reads all of the log reads what is archived too: rebuilds, proofs, audits, exports; and DuckDB."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import duckdb
import psycopg
import pytest
from msgspec.structs import replace

from conversations.archive import archive_log, archiving
from conversations.archive.archive_audit import audit_archive
from conversations.archive.parquet_file import ArchivedRow, decode, encode
from conversations.chain.day_heads import compare, head_of
from conversations.errors import ArchiveNotGiven
from conversations.event_store.log import Log
from conversations.event_store.store import open_store
from conversations.projections.read_models import PROJECTIONS
from conversations.projections.rebuilding import rebuild
from conversations.projections.verifying import verify
from runtime.postgres import open_pool
from tests.conversations.archived import ColdStorage, at, days_ago, emptied
from tests.conversations.given import ACCOUNT, turn
from tests.conversations.read_models import TABLES
from tests.conversations.replay_commands import Commands


async def contents(cold: ColdStorage) -> dict[str, list[tuple[object, ...]]]:
    return {table: await cold.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in TABLES}


async def test_a_rebuild_has_what_is_archived(cold: ColdStorage) -> None:
    for word in "abcd":
        await cold.chat(word)
    await cold.chat("young", days=100)
    await cold.moved()
    before = await contents(cold)
    assert len(before["messages"]) == 2 * 6
    await rebuild(cold.pool, cold.archive_log, PROJECTIONS, batch=7)
    assert await contents(cold) == before
    assert all(each.ok for each in await verify(cold.pool, cold.archive_log, PROJECTIONS, batch=5))
    for build in (rebuild, verify):
        with pytest.raises(ArchiveNotGiven):
            await build(cold.pool, cold.log, PROJECTIONS)
    assert await contents(cold) == before


async def test_pages_merge_files_and_the_log_in_order(
    cold: ColdStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files whose positions overlap, and what has come back from one of them."""
    monkeypatch.setattr(archiving, "FILE_CONVERSATIONS", 2)
    threads = [await cold.chat(word) for word in "abcdef"]
    for thread in threads[::2]:
        await cold.store.append(thread, at(days_ago(380), turn(f"{thread.version}", "Again", "Yes")))
    await cold.chat("young", days=100)
    positions = [entry.position for entry in await cold.log.read(0, 1_000)]
    assert (await cold.moved()).files == 3
    await cold.work.bring_back(threads[1].conversation_id)
    for limit in (3, 8, 1_000):
        read: list[int] = []
        while page := await cold.archive_log.read(read[-1] if read else 0, limit):
            read += [entry.position for entry in page]
        assert read[: len(positions)] == positions
        assert read == sorted(set(read))


async def test_a_page_has_what_is_archived_and_deleted_while_files_are_read(
    cold: ColdStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cold.chat("first")
    thread = await cold.chat("second", days=100)
    await cold.chat("third")
    await cold.moved()
    read = cold.archive.rows_after

    async def read_slowly(after: int, until: int, limit: int) -> list[ArchivedRow]:
        rows = await read(after, until, limit)
        await cold.moved(days=90)
        return rows

    monkeypatch.setattr(archive_log, "GRACE_SECONDS", 0)
    monkeypatch.setattr(cold.archive, "rows_after", read_slowly)
    page = await cold.archive_log.read(0, 1_000)
    assert sum(each.conversation_id == thread.conversation_id for each in page) == thread.version


async def test_an_audit_verifies_the_files_and_heads_of_days_hold(cold: ColdStorage) -> None:
    threads = [await cold.chat(word) for word in "ab"]
    async with await psycopg.AsyncConnection.connect(cold.url) as conn:
        day = datetime.now(UTC).date() - timedelta(days=399)
        await conn.execute("INSERT INTO feed_days VALUES (%s, %s)", [day, await cold.log.head()])
    old = day - timedelta(days=1)
    await cold.follow()
    head, leaves = await head_of(cold.pool, cold.log, old)
    assert head.conversations == 2
    await cold.moved()
    assert await compare(cold.pool, cold.log, head, leaves) is None
    found = await audit_archive(cold.archive)
    assert (found.conversations, found.events, found.broken) == (2, sum(each.version for each in threads), [])
    (name,) = cold.files.names()
    rows = decode(cold.files.read(name))
    for changed in (
        [replace(row, state=row.state.replace(b"Reply a", b"Reply z")) for row in rows],
        [replace(row, position=row.position + 1) if row is rows[3] else row for row in rows],
        [row for row in rows if row is not rows[2]],
        [row for row in rows if row is not rows[-1]],
    ):
        cold.files.write(name, encode(changed))
        again = type(cold.archive)(cold.pool, cold.files)
        assert len((await audit_archive(again)).broken) == 1
    await cold.rows("DELETE FROM archived_conversations WHERE account_id = %s RETURNING file", ACCOUNT)
    difference = await compare(cold.pool, cold.log, head, leaves)
    assert difference is not None
    assert difference.changed


@contextlib.asynccontextmanager
async def opened(url: str, folder: Path) -> AsyncIterator[ColdStorage]:
    """On the loop of a test that calls commands."""
    async with open_pool(url) as pool, open_store(url) as store:
        yield ColdStorage(store, Log(pool), pool, url, folder)


async def _one_cold_chat(url: str, folder: Path) -> str:
    async with opened(url, folder) as cold:
        await emptied(url)
        thread = await cold.chat("cold")
        await cold.follow()
        return thread.conversation_id


async def _rows_deleted(url: str, folder: Path) -> None:
    async with opened(url, folder) as cold:
        await cold.aged()
        assert await cold.work.delete_rows() > 0


def test_commands_read_the_archive(replay: Commands, tmp_path: Path) -> None:
    thread = asyncio.run(_one_cold_chat(replay.url, tmp_path))
    archive = partial(replay.run, "archive", AGENTCHAT_ARCHIVE_DIR=str(tmp_path))
    knowing = partial(replay, AGENTCHAT_ARCHIVE_DIR=str(tmp_path))
    too_young = archive("--older-than", "30d")
    assert (too_young.code, too_young.err) == (
        2,
        "--older-than: conversations stay in the log for 35 days at least",
    )
    assert "AGENTCHAT_ARCHIVE_DIR" in replay.run("archive").err
    done = archive("--older-than", "365d", "--json")
    assert json.loads(done.out)["conversations"] == 1
    asyncio.run(_rows_deleted(replay.url, tmp_path))
    assert "Reply cold" in knowing("show", thread).out
    exported = knowing("export", "--all")
    assert (exported.code, thread in exported.out, "Reply cold" in exported.out) == (0, True, True)
    audited = knowing("audit")
    assert (audited.code, "1 archived conversation;" in audited.out) == (0, True)
    assert knowing("rebuild", "messages").code == 0
    for command in ("export --all", "audit", "rebuild messages", "verify messages"):
        refused = replay(*command.split())
        assert (refused.code != 0, "AGENTCHAT_ARCHIVE_DIR" in refused.err) == (True, True), command


async def test_the_files_are_queried_by_duckdb_as_documented(cold: ColdStorage) -> None:
    await cold.chat("a", "b")
    await cold.moved()
    page = (Path(__file__).parents[2] / "docs/analyse/archive.md").read_text()
    queries = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    assert len(queries) >= 3
    found = []
    with duckdb.connect() as notebook:
        for query in queries:
            relation = notebook.sql(query.replace("/archive/", f"{cold.folder}/"))
            assert relation is not None
            found.append(relation.fetchall())
    assert all(found)
    (columns,) = (rows for rows in found if rows[0][0] == "position")
    documented = re.findall(r"^\| `(\w+)` \| ([A-Z ]+) \|", page, re.MULTILINE)
    assert [row[:2] for row in columns] == [(name, type_) for name, type_ in documented]
    assert any(row[-2:] == ("assistant", "Reply a") for rows in found for row in rows)
