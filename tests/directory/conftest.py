"""A migrated directory, and an account in it."""

from collections.abc import AsyncIterator

import pytest

from directory.administration import create_account
from directory.migrations import migrate
from runtime.postgres import Connection, Pool, connection, open_pool


@pytest.fixture(scope="module")
async def pool(database_url: str) -> AsyncIterator[Pool]:
    await migrate(database_url)
    async with open_pool(database_url) as opened:
        yield opened


@pytest.fixture
async def conn(pool: Pool) -> AsyncIterator[Connection]:
    async with connection(pool, seconds=50) as taken:
        yield taken


@pytest.fixture
async def account(conn: Connection) -> str:
    return (await create_account(conn, name="Acme", plan="Pro", actor="test")).account_id
