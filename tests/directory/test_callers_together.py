"""Look-ups that wait go to Postgres together, and each is answered as if it had gone alone."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import psycopg
import pytest
from msgspec.structs import replace

from agentchat.administration import Admin, admin_keys
from agentchat.administration.agent_versions import change_agent, create_agent
from agentchat.administration.key_values import KeyRotation, NewKey
from agentchat.directory.agent_validation import AgentChanges, AgentDraft
from agentchat.directory.api_keys import Callers, ResolvedCaller
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import (
    CALL_SECONDS,
    Connection,
    DatabaseUnavailable,
    Pool,
    acquire_connection,
    open_pool,
)
from tests.administrator import resolve

SEALER = Sealer(b"k" * 32)
DRAFT = AgentDraft(name="Shop", model="claude-x")
_BREAK = """
SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE '%AS asked%' AND pid <> pg_backend_pid()
"""


@pytest.fixture
async def callers(pool: Pool) -> AsyncIterator[Callers]:
    async with contextlib.aclosing(Callers(pool)) as opened:
        yield opened


def _drop_time(found: ResolvedCaller | None) -> ResolvedCaller | None:
    return found and (replace(found[0], now=""), found[1])


async def test_concurrent_look_ups_get_the_answers_of_single_ones(
    callers: Callers, pool: Pool, conn: Connection, admin: Admin, account: str
) -> None:
    issued = [(await admin_keys.create(admin, account, NewKey())).key for _ in range(3)]
    agents = [await create_agent(conn, SEALER, account, DRAFT, actor="test") for _ in range(2)]
    await change_agent(conn, SEALER, agents[1], AgentChanges(disabled=True), actor="test")
    unknown = ("sk-ac-unknown", "", "\x00", "\ud800", "' OR true --")
    odd = (None, agents[0].upper(), "shop", "", "\x00", "\ud800", '"}', "{,}", "NULL", "\\")
    asked = [(key, agent) for key in (*issued, *unknown) for agent in (*agents, *odd)]
    alone = [await resolve(pool, key, agent) for key, agent in asked]
    for _ in range(2):
        together = await asyncio.gather(*(callers.resolve(key, agent) for key, agent in asked))
        assert [*map(_drop_time, together)] == [*map(_drop_time, alone)]


async def test_waiting_look_ups_share_one_connection(
    callers: Callers, pool: Pool, admin: Admin, account: str
) -> None:
    key = (await admin_keys.create(admin, account, NewKey())).key
    before = pool.get_stats()["requests_num"]
    assert None not in await asyncio.gather(*(callers.resolve(key, None) for _ in range(500)))
    assert pool.get_stats()["requests_num"] - before == 1


async def test_rotated_key_fails_while_other_look_ups_wait(
    callers: Callers, admin: Admin, account: str
) -> None:
    other = (await admin_keys.create(admin, account, NewKey())).key
    key = await admin_keys.create(admin, account, NewKey())
    for _ in range(50):
        noise = asyncio.gather(*(callers.resolve(other, None) for _ in range(20)))
        fresh = await admin_keys.rotate(admin, key.id, KeyRotation())
        old, new = await asyncio.gather(callers.resolve(key.key, None), callers.resolve(fresh.key, None))
        assert old is None
        assert new is not None
        await noise
        key = fresh


async def test_cancelled_look_up_does_not_affect_others(callers: Callers, admin: Admin, account: str) -> None:
    key = (await admin_keys.create(admin, account, NewKey())).key
    asking = [asyncio.create_task(callers.resolve(key, None)) for _ in range(3)]
    await asyncio.sleep(0)
    asking[0].cancel()
    first, *others = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert all(isinstance(found, tuple) for found in others)


async def test_broken_connection_loses_no_answer(
    callers: Callers, migrated_database_url: str, admin: Admin, account: str
) -> None:
    key = (await admin_keys.create(admin, account, NewKey())).key
    with psycopg.connect(migrated_database_url, autocommit=True) as owner:
        for _ in range(5):
            found = await asyncio.gather(*(callers.resolve(key, None) for _ in range(10)))
            assert None not in found
            assert (True,) in owner.execute(_BREAK).fetchall()


async def test_failed_statement_is_repeated_for_each_look_up(
    callers: Callers, migrated_database_url: str, admin: Admin, account: str
) -> None:
    key = (await admin_keys.create(admin, account, NewKey())).key
    assert await callers.resolve(key, None)
    with psycopg.connect(migrated_database_url, autocommit=True) as owner:
        owner.execute("ALTER TABLE api_keys ALTER key_id TYPE varchar")  # its plan gives another type now
        found = await asyncio.gather(*(callers.resolve(key, None) for _ in range(3)))
        owner.execute("ALTER TABLE api_keys ALTER key_id TYPE text")
    assert None not in found


async def test_all_look_ups_fail_in_time_without_postgres(
    callers: Callers, migrated_database_url: str
) -> None:
    loop = asyncio.get_running_loop()
    async with (
        open_pool(migrated_database_url, role=None) as owner,
        acquire_connection(owner, seconds=20) as locking,
        locking.transaction(),
    ):
        await locking.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        await locking.execute("LOCK TABLE api_keys")
        began = loop.time()
        asked = (callers.resolve("sk-a", None) for _ in range(4))
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert loop.time() - began < 2 * CALL_SECONDS
    assert all(isinstance(each, DatabaseUnavailable) for each in told)
    assert await callers.resolve("sk-a", None) is None
