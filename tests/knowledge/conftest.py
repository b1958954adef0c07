"""A pool on the module's database with its tables, and a knowledge base of a new account."""

from collections.abc import AsyncIterator

import pytest

from directory.administration.audit import record
from knowledge.audit import Audit
from knowledge.migrations import migrate
from runtime.postgres import Connection, Pool, connection, open_pool
from tests.knowledge.shelf import Shelf

AUDIT = Audit("test", record)


@pytest.fixture(scope="module")
async def pool(migrated_database_url: str) -> AsyncIterator[Pool]:
    await migrate(migrated_database_url)
    async with open_pool(migrated_database_url) as opened:
        yield opened


@pytest.fixture
async def conn(pool: Pool) -> AsyncIterator[Connection]:
    async with connection(pool, seconds=30) as taken:
        yield taken


@pytest.fixture
async def shelf(pool: Pool) -> Shelf:
    """An empty knowledge base of a new account."""
    return await Shelf.create(pool, AUDIT)
