"""One projector leads, another takes over when it is killed, frozen or stopped; health."""

import asyncio
import contextlib
import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from agentchat.bus.bus import Bus
from agentchat.contracts.ids import make_id
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.queries.current_activity import find_leading_projector
from agentchat.runtime.postgres import Pool
from tests.admin_cli.conftest import SECRET_KEY
from tests.conversations.given import build_conversation_started, turn
from tests.ports import find_free_port
from tests.projector.conftest import World
from tests.support.file_folder import FILES_URL
from tests.support.service_process import START_SECONDS, ServiceProcess, start_service

TAKEOVER_SECONDS = 5.0
"""The promise; what is seen of it includes the starts of processes next to this one."""


class Projectors:
    """Processes by name."""

    def __init__(self, database_url: str, nats_url: str, pool: Pool) -> None:
        self._environment = {
            **os.environ,
            "AGENTCHAT_DATABASE_URL": database_url,
            "AGENTCHAT_FILES_URL": FILES_URL,
            "AGENTCHAT_NATS_URL": nats_url,
            "AGENTCHAT_SECRET_KEY": SECRET_KEY,
        }
        self._pool = pool
        self.processes: dict[str, ServiceProcess] = {}
        self.ports: dict[str, int] = {}

    async def start(self, name: str) -> None:
        self.ports[name] = find_free_port()
        self.processes[name] = start_service(
            *("projector", "--name", name),
            env={**self._environment, "AGENTCHAT_HEALTH_PORT": str(self.ports[name])},
        )

    def signal(self, name: str, number: signal.Signals) -> None:
        self.processes[name].send_signal(number)

    async def wait_for_leader(self, *names: str) -> str:
        """Wait until one of these leads, and return its name."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                leader = await find_leading_projector(self._pool)
                if leader in names:
                    return leader
                await asyncio.sleep(0.02)

    async def start_two(self) -> tuple[str, str]:
        """Start two; return the name of the one that leads and of the other."""
        for name in ("projector-1", "projector-2"):
            await self.start(name)
            await self.wait_ready(name)
        leader = await self.wait_for_leader(*self.processes)
        (other,) = self.processes.keys() - {leader}
        return leader, other

    async def ask_readiness(self, name: str) -> tuple[int, dict[str, object]]:
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{self.ports[name]}/readyz")

    async def wait_ready(self, name: str) -> None:
        async with asyncio.timeout(START_SECONDS):
            while True:
                with contextlib.suppress(OSError):
                    if (await self.ask_readiness(name))[0] == 200:
                        return
                await asyncio.sleep(0.05)

    async def end(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            await process.wait()


@pytest.fixture
async def projectors(
    migrated_database_url: str, fresh_nats_url: str, pool: Pool, bus: Bus
) -> AsyncIterator[Projectors]:
    running = Projectors(migrated_database_url, fresh_nats_url, pool)
    yield running
    await running.end()


async def count_told(world: World, count: int) -> None:
    """Append threads of as many accounts."""
    for number in range(count):
        begun = replace(build_conversation_started(), account_id=f"account-{number}")
        await world.store.append(
            Conversation(conversation_id=make_id()), [begun, *turn(make_id(), "Hello", "Hi")]
        )


async def count_projected(world: World, threads: int) -> None:
    """Wait until so many threads have both of their messages; other processes see to it."""
    async with asyncio.timeout(START_SECONDS):
        while await world.rows("SELECT count(*), sum(message_count) FROM conversations") != [  # noqa: ASYNC110 - as above
            (threads, 2 * threads)
        ]:
            await asyncio.sleep(0.02)


async def check_each_applied_once(world: World, threads: int) -> None:
    await count_projected(world, threads)
    await world.streams.wait_until_grown("EVENTS", threads * 7)
    assert await world.list_positions() == [entry.position for entry in await world.log.read(0, 1000)]
    assert all(one.ok and one.parked == () for one in await world.verify())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_another_projector_takes_over_within_five_seconds(
    projectors: Projectors, world: World, number: signal.Signals
) -> None:
    leader, other = await projectors.start_two()
    await count_told(world, 20)
    await count_projected(world, 20)
    projectors.signal(leader, number)
    began_at = time.monotonic()
    await count_told(world, 20)
    await projectors.wait_for_leader(other)
    assert time.monotonic() - began_at < TAKEOVER_SECONDS
    await count_projected(world, 40)
    if number == signal.SIGSTOP:
        projectors.signal(leader, signal.SIGCONT)
    await count_told(world, 20)
    await check_each_applied_once(world, 60)
    assert await find_leading_projector(world.pool) == other


async def test_a_projector_that_is_stopped_hands_over_at_once(projectors: Projectors, world: World) -> None:
    leader, other = await projectors.start_two()
    telling = asyncio.create_task(count_told(world, 20))
    projectors.signal(leader, signal.SIGTERM)
    async with asyncio.timeout(START_SECONDS):
        assert await projectors.processes[leader].wait() == 0
    ended_at = time.monotonic()
    await projectors.wait_for_leader(other)
    assert time.monotonic() - ended_at < TAKEOVER_SECONDS
    await telling
    await check_each_applied_once(world, 20)


def _get(url: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
