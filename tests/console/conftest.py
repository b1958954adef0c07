"""Console processes on one database and one NATS, which tests fill, and a browser without scripts."""

import base64
from collections.abc import AsyncIterator, Iterator

import pytest

from agentchat.bus.bus import Bus
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.ops.service_processes import Servers
from agentchat.runtime.postgres import Pool
from tests.console.embedded import GUARDED, run_console
from tests.console.openid_provider import OpenIdProvider, run_openid_provider
from tests.console.pages import Browser
from tests.conversations.read_models import Storage, empty_tables
from tests.harness import new_database
from tests.support.embedded_service import EmbeddedService
from tests.support.file_folder import FILES_URL

PRICES = """{"currency": "EUR", "models": {
    "demo-shop-1": {"input": 1000, "cache_read": 100, "cache_write": 2000, "output": 5000}}}"""


@pytest.fixture(scope="session")
def migrated_database_url(servers: Servers, migrated_template: str) -> Iterator[str]:
    yield from new_database(servers, migrated_template)


@pytest.fixture(scope="session")
def fresh_nats_url(nats_accounts: Iterator[str]) -> str:
    return next(nats_accounts)


@pytest.fixture(scope="session")
def environ(
    migrated_database_url: str, fresh_nats_url: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    prices = tmp_path_factory.mktemp("prices") / "prices.json"
    prices.write_text(PRICES)
    return {
        "AGENTCHAT_PRICES": str(prices),
        "AGENTCHAT_FILES_URL": FILES_URL,
        "AGENTCHAT_DATABASE_URL": migrated_database_url,
        "AGENTCHAT_NATS_URL": fresh_nats_url,
        "AGENTCHAT_SECRET_KEY": base64.b64encode(b"k" * 32).decode(),
        "AGENTCHAT_MODEL_ALLOW": "127.0.0.1:*",
        "AGENTCHAT_MCP_ALLOW": "127.0.0.1:*",
    }


@pytest.fixture(scope="session")
async def console(environ: dict[str, str]) -> AsyncIterator[EmbeddedService]:
    async with run_console(environ) as process:
        yield process


@pytest.fixture(scope="session")
async def guarded_console(environ: dict[str, str]) -> AsyncIterator[EmbeddedService]:
    """A console that people sign in to by the administrator's token."""
    async with run_console(environ | GUARDED) as process:
        yield process


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenIdProvider]:
    """A provider that people of the module's consoles sign in at."""
    with run_openid_provider() as running:
        yield running


@pytest.fixture
async def browser(console: EmbeddedService) -> AsyncIterator[Browser]:
    async with Browser(console.url) as opened:
        yield opened


@pytest.fixture
def storage(store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str) -> Storage:
    """The log and the read models of the module's database, to be filled."""
    return Storage(store, log, pool, migrated_database_url)


@pytest.fixture
async def empty_read_models(migrated_database_url: str) -> None:
    """Nothing of other tests: the pages show all that there is."""
    await empty_tables(migrated_database_url)


@pytest.fixture
async def bus(fresh_nats_url: str) -> AsyncIterator[Bus]:
    async with Bus.connect(fresh_nats_url, name="test") as opened:
        yield opened
