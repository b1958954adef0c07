"""The handler of calls in this process, between a real bus, a real directory and tool servers."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2

from agentchat.bus.bus import Bus
from agentchat.directory.secret_encryption import Sealer
from agentchat.files.file_store import FileStore
from agentchat.files.object_store import ObjectStore
from agentchat.net_guard import Guard, Resolver
from agentchat.runtime.postgres import Pool, open_pool
from agentchat.tool_runner.calls.executor import Executor
from agentchat.tool_runner.calls.handler import HELD_PER_SLOT, CallHandler
from agentchat.tool_runner.calls.result_quota import ResultQuota
from agentchat.tool_runner.database_clock import DatabaseClock
from agentchat.tool_runner.journal import Journal
from agentchat.tool_runner.servers.agent_servers import AgentServers
from agentchat.tool_runner.servers.tool_servers import ServerPool
from agentchat.tool_runner.tools.listing import ToolLister
from tests.tool_runner.runner import SECRET_KEY, Calls


class Handling:
    """A running handler: `calls` asks it over the bus, `lister` lists the tools of its servers."""

    def __init__(self, calls: Calls, pool: Pool, executor: Executor, lister: ToolLister) -> None:
        self.calls = calls
        self.pool = pool
        self.executor = executor
        self.lister = lister


@contextlib.asynccontextmanager
async def handle_calls(
    nats_url: str, database_url: str, *ports: int, slots: int = 4, quota: ResultQuota | None = None
) -> AsyncIterator[Handling]:
    """Handle calls while the block runs; tool servers may be at `ports` of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        objects = ObjectStore(Path(folder).as_uri())
        async with _handle_calls(nats_url, database_url, objects, ports, slots, quota) as handling:
            yield handling


@contextlib.asynccontextmanager
async def _handle_calls(
    nats_url: str,
    database_url: str,
    objects: ObjectStore,
    ports: tuple[int, ...],
    slots: int,
    quota: ResultQuota | None,
) -> AsyncIterator[Handling]:
    async with (
        open_pool(database_url) as pool,
        Bus.connect(nats_url, name="test") as bus,
        asyncio.TaskGroup() as group,
    ):
        guard = Guard([f"127.0.0.1:{port}" for port in ports], Resolver())
        servers = ServerPool(guard, httpx2.create_ssl_context())
        agents = AgentServers(pool, Sealer.from_setting(SECRET_KEY), "http://127.0.0.1:8080")
        executor = Executor(bus, agents, servers, Journal(pool, "test"), DatabaseClock(pool), slots)
        files = FileStore(pool, objects)
        handler = CallHandler(bus, executor, quota or ResultQuota(), files)
        stop = asyncio.Event()
        group.create_task(bus.queues.consume("TOOLS", handler.handle, slots=slots * HELD_PER_SLOT, stop=stop))
        try:
            yield Handling(Calls(bus), pool, executor, ToolLister(agents, servers))
        finally:
            stop.set()
            executor.close()
            executor.interrupt()
            await servers.close(5.0)
