"""A nats-server of its own for tests that stop, kill or wipe it, and one that the others share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bus import Bus
from tests.bus.nats_server import NatsServer


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    server = NatsServer(tmp_path / "nats")
    await server.start()
    yield server
    await server.kill()


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
