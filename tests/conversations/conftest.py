"""`agentchat replay` on the module's database, and a Postgres that tests may freeze and stop."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.idempotency.claim_writer import Claims
from agentchat.conversations.migrations import migrate
from agentchat.runtime.postgres import Pool
from tests.conversations.postgres_server import PostgresServer
from tests.conversations.read_models import Storage, empty_tables
from tests.conversations.replay_commands import Commands


@pytest.fixture(scope="module")
def replay(migrated_database_url: str) -> Commands:
    """`agentchat replay ...` on the module's database."""
    return Commands(migrated_database_url)


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


@pytest.fixture
async def claims(pool: Pool) -> AsyncIterator[Claims]:
    """Closed before the pool."""
    async with contextlib.aclosing(Claims(pool)) as opened:
        yield opened


@pytest.fixture
async def empty_database(migrated_database_url: str) -> None:
    """No conversation is there, and no read model has any."""
    await empty_tables(migrated_database_url)


@pytest.fixture
def storage(store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str) -> Storage:
    return Storage(store, log, pool, migrated_database_url)
