"""A nats-server that tests share which neither stop nor wipe it."""

from collections.abc import AsyncIterator

import pytest

from agentchat.bus.bus import Bus
from tests.bus.nats_server import NatsServer


@pytest.fixture(scope="session")
async def shared_nats(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    await server.start()
    yield server
    await server.kill()


@pytest.fixture
async def bus(shared_nats: NatsServer) -> AsyncIterator[Bus]:
    async with Bus.connect(shared_nats.url, name="test") as opened:
        yield opened
