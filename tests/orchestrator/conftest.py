"""An orchestrator in this process on real servers, with a scripted provider."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from agentchat.bus.bus import Bus
from agentchat.conversations.event_store.event_log import open_log
from agentchat.limits import Limiter
from agentchat.net_guard import Guard
from agentchat.orchestrator.models.anthropic.client import AnthropicModel
from agentchat.orchestrator.models.provider_model import ProviderModel
from agentchat.orchestrator.settings import Settings
from agentchat.runtime.postgres import open_pool
from tests.orchestrator.given import SECRET, World, create_account
from tests.orchestrator.provider_caller import Caller
from tests.orchestrator.scripted import ScriptedProvider
from tests.orchestrator.toolbox import Toolbox


@pytest.fixture(scope="module")
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider().run() as running:
        yield running


@pytest.fixture
def wire() -> type[ProviderModel[Any]]:
    """The provider whose wire `caller` and `impatient_caller` speak."""
    return AnthropicModel


@pytest.fixture
async def caller(provider: ScriptedProvider, wire: type[ProviderModel[Any]]) -> AsyncIterator[Caller]:
    """A client of the scripted provider, whose retries follow each other at once."""
    client = wire(Guard(()), first_backoff_seconds=0.005)
    yield Caller(client, provider.url)
    await client.aclose()


@pytest.fixture
async def impatient_caller(
    provider: ScriptedProvider, wire: type[ProviderModel[Any]]
) -> AsyncIterator[Caller]:
    """One that is quick to give up a silent stream."""
    client = wire(
        Guard(()), idle_seconds=0.6, quiet_seconds=1.2, last_seconds=0.3, first_backoff_seconds=0.005
    )
    yield Caller(client, provider.url)
    await client.aclose()


@pytest.fixture(scope="module")
async def world(
    fresh_nats_url: str,
    migrated_database_url: str,
    redis_url: str,
    provider: ScriptedProvider,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[World]:
    """No orchestrator runs yet."""
    settings = Settings(
        database_url=migrated_database_url,
        nats_url=fresh_nats_url,
        redis_url=redis_url,
        secret_key=SECRET,
        files_url=tmp_path_factory.mktemp("files").as_uri(),
        health_port=0,
        anthropic_base_url=provider.url,
        model_allow=(urlsplit(provider.url).netloc,),
        openai_base_url=provider.url,
    )
    async with (
        Bus.connect(fresh_nats_url, name="tests") as bus,
        open_log(migrated_database_url) as log,
        open_pool(migrated_database_url, role=None) as pool,
    ):
        yield World(bus, log, pool, settings, await create_account(pool), provider)


@pytest.fixture(scope="module")
async def system(world: World) -> AsyncIterator[World]:
    """With one orchestrator."""
    async with world.worker():
        yield world


@pytest.fixture(scope="module")
async def box(system: World) -> AsyncIterator[Toolbox]:
    """What its agents' tools are run by."""
    async with Toolbox(system.bus).open() as opened:
        yield opened


@pytest.fixture
async def limiter(redis_url: str) -> AsyncIterator[Limiter]:
    """The gateway's."""
    opened = Limiter(redis_url, instance="test", timeout=5)
    yield opened
    await opened.aclose()
