"""A store and a pool on the module's database, and a Postgres that tests may freeze and stop."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conversations.log import Log, open_log
from conversations.migrations import migrate
from conversations.store import ConversationStore, open_store
from runtime.postgres import Pool, open_pool
from tests.conversations.postgres_server import PostgresServer


@pytest.fixture
async def store(migrated_database_url: str) -> AsyncIterator[ConversationStore]:
    async with open_store(migrated_database_url) as opened:
        yield opened


@pytest.fixture
async def pool(migrated_database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(migrated_database_url, max_size=9) as opened:
        yield opened


@pytest.fixture
async def log(migrated_database_url: str) -> AsyncIterator[Log]:
    async with open_log(migrated_database_url) as opened:
        yield opened


@pytest.fixture
async def frail_postgres(tmp_path: Path) -> AsyncIterator[PostgresServer]:
    """A migrated server of this test's own."""
    server = PostgresServer(tmp_path)
    await server.create()
    await server.start()
    await migrate(server.url)
    yield server
    server.thaw()
    await server.stop()
