"""A cluster of three nats-servers: streams with three replicas outlive the server that leads them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import nats
import pytest
from nats.js import JetStreamContext

from agentchat.bus import stream_settings
from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.queue_consumer import QueueDelivery
from agentchat.contracts import ids, messages, wire
from agentchat.ops.free_ports import find_free_port
from tests.bus.nats_server import NatsServer
from tests.contracts.wire_examples import MESSAGE_EXAMPLES

pytestmark = pytest.mark.slow

NAMES = ("a", "b", "c")
REQUEST = next(m for m in MESSAGE_EXAMPLES if isinstance(m, messages.ChatRequested))


class Cluster:
    """Three servers by name."""

    def __init__(self, servers: dict[str, NatsServer]) -> None:
        self.servers = servers

    @property
    def url(self) -> str:
        return ",".join(server.url for server in self.servers.values())

    async def find_leader(self, stream: str) -> str:
        async with self._open_jetstream() as jetstream:
            info = await jetstream.stream_info(stream)
        assert info.cluster is not None
        assert info.cluster.leader is not None
        return info.cluster.leader

    async def count_replicas(self) -> set[int | None]:
        """Return the numbers of replicas of our streams."""
        async with self._open_jetstream() as jetstream:
            found = [await jetstream.stream_info(name) for name in stream_settings.NAMES]
        return {info.config.num_replicas for info in found}

    async def set_replicas(self, stream: str, count: int) -> None:
        """Set the replicas of a stream, as an operator does."""
        async with self._open_jetstream() as jetstream:
            config = (await jetstream.stream_info(stream)).config
            config.num_replicas = count
            await jetstream.update_stream(config)

    @contextlib.asynccontextmanager
    async def _open_jetstream(self) -> AsyncIterator[JetStreamContext]:
        client = await nats.connect(self.url.split(","))
        try:
            yield client.jetstream()
        finally:
            await client.close()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    routes = {name: find_free_port() for name in NAMES}
    addresses = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes.values())
    joined = f"cluster {{ name: tests, routes: [{addresses}]"
    servers = {
        name: NatsServer(tmp_path / name, f'server_name: {name}\n{joined}, listen: "127.0.0.1:{port}" }}\n')
        for name, port in routes.items()
    }
    await asyncio.gather(*(server.start() for server in servers.values()))
    yield Cluster(servers)
    await asyncio.gather(*(server.kill() for server in servers.values()))


async def publish(bus: Bus, message: str) -> None:
    """Publish as a caller does who tries again after 503, with the same ids."""
    request = msgspec.structs.replace(
        REQUEST, trace_id=ids.make_id().replace("-", ""), message=message, requested_at="2026-01-01T00:00:00Z"
    )
    while True:
        with contextlib.suppress(BusUnavailable):
            return await bus.queues.request_chat(request)


@pytest.mark.slow
async def test_replicated_streams_outlive_their_leader(
    cluster: Cluster,
) -> None:
    seen: set[str] = set()
    news, stop = asyncio.Event(), asyncio.Event()

    async def handle(delivery: QueueDelivery) -> None:
        seen.add(wire.decode_message(messages.ChatRequested, delivery.data).message)
        news.set()

    async def wait_until_seen(count: int) -> None:
        async with asyncio.timeout(30):
            while len(seen) < count:
                news.clear()
                await news.wait()

    async with (
        Bus.connect(cluster.url, name="worker", replicas=3) as worker,
        Bus.connect(cluster.url, name="gateway") as gateway,
    ):
        assert await cluster.count_replicas() == {3}, "who asks for fewer leaves them"
        await cluster.set_replicas("EVENTS", 1)
        await worker._jetstream.provision()
        assert await cluster.count_replicas() == {3}
        consuming = asyncio.create_task(worker.queues.consume("REQUESTS", handle, slots=5, stop=stop))
        await publish(gateway, "0")
        await wait_until_seen(1)
        await cluster.servers[await cluster.find_leader("REQUESTS")].kill()
        async with asyncio.timeout(30):
            for number in range(1, 21):
                await publish(gateway, str(number))
        await wait_until_seen(21)
        stop.set()
        await consuming
