import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from agentchat.runtime import migrations, postgres
from agentchat.runtime.postgres import DatabaseUnavailable, Pool, acquire_connection, open_pool, ping
from tests.blocking import until_blocked_by
from tests.support.proxy import Proxy, run_proxy


@pytest.fixture(scope="module", autouse=True)
async def role(database_url: str) -> None:
    """The role that pools act as, which migrations make."""
    async with migrations.open_migration(database_url) as conn:
        await migrations.apply(conn, "runtime-test", ())


@asynccontextmanager
async def open_proxied_pool(database_url: str, max_size: int) -> AsyncIterator[tuple[Proxy, Pool]]:
    async with run_proxy(database_url) as (proxy, through), open_pool(through, max_size=max_size) as pool:
        yield proxy, pool


async def is_answering(pool: Pool) -> bool:
    try:
        await ping(pool)
    except DatabaseUnavailable:
        return False
    return True


async def wait_until_it_answers(pool: Pool, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not await is_answering(pool):  # noqa: ASYNC110 - Postgres tells nobody that it is back
            await asyncio.sleep(0.05)


async def test_services_act_as_their_role_with_bounded_statements(database_url: str) -> None:
    async with open_pool(database_url) as pool, acquire_connection(pool) as conn:
        cursor = await conn.execute(
            "SELECT current_user, current_setting('statement_timeout'), "
            "current_setting('idle_in_transaction_session_timeout')"
        )
        assert await cursor.fetchone() == ("agentchat_service", "5s", "2s")


async def test_commit_waits_for_the_disk_except_in_a_lax_pool(database_url: str) -> None:
    async with open_pool(database_url) as durable, open_pool(database_url, durable=False) as repeated:
        waits: list[str] = []
        for pool in (durable, repeated, durable):
            async with acquire_connection(pool) as conn:
                row = await (await conn.execute("SHOW synchronous_commit")).fetchone()
            waits.append(row[0] if row else "")
    assert waits == ["on", "off", "on"]


async def test_no_caller_waits_too_long_for_a_frozen_postgres(database_url: str) -> None:
    async def call(pool: Pool) -> float:
        began = time.monotonic()
        with pytest.raises(DatabaseUnavailable):
            async with acquire_connection(pool, seconds=1.0) as conn:
                await conn.execute("SELECT 1")
        return time.monotonic() - began

    async with open_proxied_pool(database_url, max_size=2) as (proxy, pool):
        await wait_until_it_answers(pool, 30)
        await proxy.set_mode("freeze")
        assert max(await asyncio.gather(*(call(pool) for _ in range(20)))) < 20
        await proxy.set_mode("pass")


async def test_a_cancelled_caller_does_not_wait_for_a_frozen_postgres(database_url: str) -> None:
    async with open_proxied_pool(database_url, max_size=1) as (proxy, pool):
        await wait_until_it_answers(pool, 30)
        await proxy.set_mode("freeze")

        async def call() -> None:
            async with acquire_connection(pool, seconds=60.0) as conn:
                await conn.execute("SELECT pg_sleep(30)")

        caller = asyncio.create_task(call())
        await asyncio.sleep(0.1)
        caller.cancel()
        done, _ = await asyncio.wait([caller], timeout=15)
        assert done
        await proxy.set_mode("pass")
        await wait_until_it_answers(pool, 30)


async def test_a_cancelled_callers_statement_ends_and_its_connection_stays(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_CANCEL_SECONDS", 20.0)

    async def call() -> None:
        async with acquire_connection(pool) as conn:
            await conn.execute("SELECT pg_advisory_xact_lock(7)")

    async with open_pool(database_url, role=None, max_size=1) as pool:
        async with acquire_connection(pool) as conn:
            backend = conn.info.backend_pid
        async with await psycopg.AsyncConnection.connect(database_url) as holder:
            await holder.execute("SELECT pg_advisory_xact_lock(7)")
            caller = asyncio.create_task(call())
            await until_blocked_by(holder)
            caller.cancel()
            await holder.rollback()
        await asyncio.wait([caller])
        assert caller.cancelled()
        async with acquire_connection(pool) as conn:
            assert conn.info.backend_pid == backend


async def test_connections_that_the_server_closed_are_not_handed_out(database_url: str) -> None:
    async with open_pool(database_url, min_size=4, max_size=4) as pool:
        await pool.wait(timeout=40)
        with psycopg.connect(database_url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        await asyncio.gather(*(ping(pool) for _ in range(20)))


async def test_a_connection_that_breaks_in_use_is_reported_unavailable(database_url: str) -> None:
    async with open_pool(database_url, role=None) as pool:
        with pytest.raises(DatabaseUnavailable):
            async with acquire_connection(pool) as conn:
                await conn.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        await wait_until_it_answers(pool, 30)


async def test_a_slow_statement_is_ended_by_the_deadline(database_url: str) -> None:
    async with open_pool(database_url) as pool:
        began = time.monotonic()
        with pytest.raises(DatabaseUnavailable):
            async with acquire_connection(pool, seconds=0.3) as conn:
                await conn.execute("SELECT pg_sleep(50)")
        assert time.monotonic() - began < 20


async def test_errors_of_the_statement_itself_pass_through(database_url: str) -> None:
    async with open_pool(database_url) as pool:
        with pytest.raises(psycopg.errors.DivisionByZero):
            async with acquire_connection(pool) as conn:
                await conn.execute("SELECT 1 / 0")
        assert await is_answering(pool)


async def test_a_pool_opens_without_postgres_and_finds_it_later(database_url: str) -> None:
    async with run_proxy(database_url) as (proxy, through):
        pass
    async with open_pool(through) as pool:
        began = time.monotonic()
        with pytest.raises(DatabaseUnavailable):
            async with acquire_connection(pool, seconds=0.5) as conn:
                await conn.execute("SELECT 1")
        assert time.monotonic() - began < 20
        async with Proxy(proxy.target, proxy.port):
            await wait_until_it_answers(pool, 30)
