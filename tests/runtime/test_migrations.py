import asyncio
from collections.abc import Sequence
from typing import LiteralString

import psycopg
import pytest
from psycopg import AsyncConnection

from runtime.migrations import MigrationError, apply, build_indexes, migrating

STEPS = (
    "CREATE TABLE drinks (name text PRIMARY KEY); INSERT INTO drinks VALUES ('100% tea');",
    "ALTER TABLE drinks ADD COLUMN cold boolean NOT NULL DEFAULT false",
)


async def migrate(url: str, component: str, steps: Sequence[str]) -> int:
    async with migrating(url) as conn:
        return await apply(conn, component, steps)


async def test_steps_run_once_in_order_even_if_several_migrate_at_once(database_url: str) -> None:
    ran = await asyncio.gather(*(migrate(database_url, "drinks", STEPS) for _ in range(5)))
    assert sorted(ran) == [0, 0, 0, 0, 2]
    with psycopg.connect(database_url) as conn:
        assert conn.execute("SELECT name, cold FROM drinks").fetchall() == [("100% tea", False)]
        rows = conn.execute("SELECT version FROM schema_migrations WHERE component = 'drinks' ORDER BY 1")
        assert rows.fetchall() == [(1,), (2,)]


async def test_a_later_step_runs_on_top_of_the_earlier_ones(database_url: str) -> None:
    assert await migrate(database_url, "later", ("CREATE TABLE later (a int)",)) == 1
    steps = ("CREATE TABLE later (a int)", "ALTER TABLE later ADD COLUMN b int")
    assert await migrate(database_url, "later", steps) == 1
    assert await migrate(database_url, "later", steps) == 0


async def test_a_failing_step_leaves_nothing_behind(database_url: str) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        await migrate(database_url, "broken", ("CREATE TABLE whole (a int)", "SELECT * FROM missing"))
    with psycopg.connect(database_url) as conn:
        assert conn.execute("SELECT to_regclass('whole')").fetchone() == (None,)
    assert await migrate(database_url, "broken", ("CREATE TABLE whole (a int)",)) == 1


async def test_an_edited_step_is_refused_and_its_layout_is_not_an_edit(database_url: str) -> None:
    await migrate(database_url, "edited", ("CREATE TABLE edited (a int)",))
    assert await migrate(database_url, "edited", ("CREATE TABLE\n    edited (a int)\n",)) == 0
    with pytest.raises(MigrationError, match="edited step 1 is not the one that was applied"):
        await migrate(database_url, "edited", ("CREATE TABLE edited (a bigint)",))


async def test_a_database_newer_than_the_program_is_refused(database_url: str) -> None:
    await migrate(database_url, "newer", ("SELECT 1", "SELECT 2"))
    with pytest.raises(MigrationError, match="newer is at version 2, newer than this program's 1"):
        await migrate(database_url, "newer", ("SELECT 1",))


async def test_the_service_role_exists_cannot_log_in_and_makes_no_tables(database_url: str) -> None:
    await migrate(database_url, "role", ())
    with psycopg.connect(database_url) as conn:
        row = conn.execute("SELECT rolcanlogin, rolsuper FROM pg_roles WHERE rolname = 'agentchat_service'")
        assert row.fetchone() == (False, False)
        conn.execute("SET ROLE agentchat_service")
        assert conn.execute("SELECT count(*) >= 0 FROM schema_migrations").fetchone() == (True,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("CREATE TABLE mine (a int)")


async def _broken_off(url: str) -> None:
    """A building of the index that a crash has ended."""
    async with await AsyncConnection.connect(url) as writer, await AsyncConnection.connect(url) as builder:
        await builder.set_autocommit(True)
        await writer.execute("INSERT INTO shelves VALUES (0)")
        await builder.execute("SET statement_timeout = 100")
        with pytest.raises(psycopg.errors.QueryCanceled):
            await builder.execute("CREATE INDEX CONCURRENTLY shelves_idx ON shelves (a)")


async def test_an_index_is_built_next_to_writers_by_one_of_several(database_url: str) -> None:
    await migrate(database_url, "shelves", ("CREATE TABLE shelves (a int)",))
    await _broken_off(database_url)
    indexes: dict[str, LiteralString] = {"shelves_idx": "ON shelves (a)"}
    async with await AsyncConnection.connect(database_url) as writer, asyncio.timeout(30):
        await writer.execute("INSERT INTO shelves VALUES (1)")
        building = [asyncio.create_task(build_indexes(database_url, indexes)) for _ in range(3)]
        async with await AsyncConnection.connect(database_url, autocommit=True) as other:
            while not await _is_building(other):
                pass
            await other.execute("SET lock_timeout = '5s'")
            await other.execute("INSERT INTO shelves VALUES (2)")
        assert not any(task.done() for task in building)
        await writer.commit()
        await asyncio.gather(*building)
    await build_indexes(database_url, indexes)
    with psycopg.connect(database_url) as conn:
        valid = conn.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = 'shelves_idx'::regclass")
        assert valid.fetchall() == [(True,)]


async def _is_building(conn: AsyncConnection[tuple[object, ...]]) -> bool:
    """Whether a building waits for writers."""
    cursor = await conn.execute(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()"
        " AND wait_event_type = 'Lock' AND query ~ '^(DROP|CREATE) INDEX CONCURRENTLY')"
    )
    return await cursor.fetchone() == (True,)
