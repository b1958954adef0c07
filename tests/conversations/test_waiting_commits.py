"""Append while a commit waits for a standby that is away."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import psycopg
import pytest

from agentchat.contracts.ids import make_id
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.event_store.event_log import open_log
from agentchat.conversations.leases.waiting_line import WaitingLine
from agentchat.runtime.postgres import Pool, open_pool
from tests.conversations.postgres_server import PostgresServer

pytestmark = pytest.mark.slow


@contextlib.asynccontextmanager
async def stop_standby(server: PostgresServer) -> AsyncIterator[psycopg.AsyncConnection]:
    """The server's commits wait for a standby that is away; but those of the session given do not."""
    await server.stop()
    await server.start("synchronous_standby_names=away")
    options = "-c synchronous_commit=local -c statement_timeout=2s"
    async with await psycopg.AsyncConnection.connect(server.url, options=options, autocommit=True) as other:
        yield other


async def _wait_for_a_waiter(session: psycopg.AsyncConnection) -> None:
    query = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    async with asyncio.timeout(20):
        while await (await session.execute(query)).fetchone() is None:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)


async def _append(url: str, _: Pool) -> None:
    async with open_store(url) as store:
        await store.append_stored(make_id(), 0, [("a.v1", b"{}")])


async def _leave(_: str, pool: Pool) -> None:
    await WaitingLine(pool, "worker").leave("a")


@pytest.mark.parametrize("durable", [_append, _leave])
async def test_commit_waiting_for_the_standby_blocks_no_other(
    frail_postgres: PostgresServer, durable: Callable[[str, Pool], Coroutine[Any, Any, None]]
) -> None:
    """A transaction that notifies holds a lock for all until its commit has ended. Readers do not pass it."""
    url = frail_postgres.url
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute(_WAITER)
    async with stop_standby(frail_postgres) as other, open_pool(url) as pool, open_log(url) as log:
        waiting = asyncio.create_task(durable(url, pool))
        await _wait_for_a_waiter(other)
        await other.execute("NOTIFY conversation_events")
        await other.execute(_INSERT, [make_id()])
        assert len(await log.read(0, 10)) == (0 if durable is _append else 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


_WAITER = """
INSERT INTO waiting_line (trace_id, conversation_id, place, worker, expires_at) OVERRIDING SYSTEM VALUE
VALUES ('a', 'conversation', 1, 'worker', clock_timestamp() + interval '1 hour')
"""
_INSERT = """
INSERT INTO conversation_events (originator_id, originator_version, topic, state) VALUES (%s, 1, 'b.v1', '{}')
"""
