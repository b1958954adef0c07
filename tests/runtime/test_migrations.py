import asyncio
from collections.abc import Sequence

import psycopg
import pytest

from agentchat.runtime.migrations import MigrationError, apply, open_migration

STEPS = (
    "CREATE TABLE drinks (name text PRIMARY KEY); INSERT INTO drinks VALUES ('100% tea');",
    "ALTER TABLE drinks ADD COLUMN cold boolean NOT NULL DEFAULT false",
)


async def migrate(url: str, component: str, steps: Sequence[str]) -> int:
    async with open_migration(url) as conn:
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
    with pytest.raises(MigrationError, match=r"edited step 1 is not the one .* from before release 0\.10\.0"):
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
