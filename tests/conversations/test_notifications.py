"""Sessions that listen hear of what is said, whatever it comes with."""

import asyncio

import psycopg
import pytest

from conversations.database import listen, notifications, open_session
from runtime.postgres import Connection, Pool, connection

pytestmark = pytest.mark.requirement("PROJECTION-FEED")


async def say(pool: Pool, word: str) -> None:
    async with connection(pool) as conn:
        await conn.execute("SELECT pg_notify('heard', %s)", [word])


async def test_a_notification_is_heard_also_where_it_came_with_the_answer_to_a_statement(
    migrated_database_url: str, pool: Pool
) -> None:
    async with open_session(migrated_database_url, "test") as session:
        await listen(session, "heard")
        assert await notifications(session, seconds=0.01) == []
        await say(pool, "one")
        assert await notifications(session, seconds=20) == ["one"]
        await say(pool, "two")
        await session.execute("SELECT 1")
        assert await notifications(session, seconds=20) == ["two"]


async def test_a_session_that_the_server_has_ended_says_so(migrated_database_url: str, pool: Pool) -> None:
    async with open_session(migrated_database_url, "test") as session:
        await listen(session, "heard")
        async with await psycopg.AsyncConnection.connect(migrated_database_url, autocommit=True) as owner:
            await owner.execute("SELECT pg_terminate_backend(%s)", [session.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            await _ended(session)


async def _ended(session: Connection) -> None:
    """Its last words may come before its end. Raises psycopg.OperationalError, TimeoutError."""
    async with asyncio.timeout(20):
        while True:
            await notifications(session, seconds=20)
