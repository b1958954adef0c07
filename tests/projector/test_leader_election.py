"""Leader election of projectors: one leads, a frozen one is replaced, shutdown hands over; health."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator

import pytest

from bus import Bus
from contracts.ids import new_id
from conversations.projections.conversations_table import conversations_of
from runtime.postgres import Pool, connection
from tests.conversations.given import ACCOUNT, turn
from tests.ports import free_port
from tests.projector.conftest import World
from tests.support import forked
from tests.support.starting import START_SECONDS

_LEADER = """
SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
 WHERE locktype = 'advisory' AND granted AND application_name LIKE 'projector-%'
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Projectors:
    """Processes by name."""

    def __init__(self, database_url: str, nats_url: str, pool: Pool) -> None:
        self._environment = {
            **os.environ,
            "AGENTCHAT_DATABASE_URL": database_url,
            "AGENTCHAT_NATS_URL": nats_url,
        }
        self._pool = pool
        self.processes: dict[str, forked.ForkedProcess] = {}
        self.ports: dict[str, int] = {}

    async def start(self, name: str) -> None:
        self.ports[name] = free_port()
        self.processes[name] = await forked.started(
            *("projector", "--name", name),
            env={**self._environment, "AGENTCHAT_HEALTH_PORT": str(self.ports[name])},
        )

    def signal(self, name: str, number: signal.Signals) -> None:
        self.processes[name].send_signal(number)

    async def leader(self, *, other_than: str = "") -> str:
        """The name of the one that leads, as soon as one does."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                async with connection(self._pool) as conn:
                    rows = await (await conn.execute(_LEADER)).fetchall()
                if rows and rows[0][0] != other_than:
                    return str(rows[0][0])
                await asyncio.sleep(0.05)

    async def ready(self, name: str) -> tuple[int, dict[str, object]]:
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{self.ports[name]}/readyz")

    async def wait_ready(self, name: str) -> None:
        async with asyncio.timeout(START_SECONDS):
            while True:
                with contextlib.suppress(OSError):
                    if (await self.ready(name))[0] == 200:
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


async def projected(world: World, count: int) -> None:
    """Wait until so many threads are listed; it is another process that sees to it."""
    async with asyncio.timeout(START_SECONDS):
        while len(await conversations_of(world.pool, ACCOUNT, limit=1000)) < count:  # noqa: ASYNC110 - another process fills it
            await asyncio.sleep(0.02)


@pytest.mark.requirement("PROJECTION-LEADER", "PROJECTION-FEED", "PROJECTION-TABLES")
async def test_a_frozen_leader_is_replaced_within_ten_seconds_and_nothing_is_published_twice(
    projectors: Projectors, world: World
) -> None:
    for name in ("projector-1", "projector-2"):
        await projectors.start(name)
    first = await projectors.leader()
    for _ in range(5):
        await world.told(*turn(new_id(), "Hello", "Hi"))
    await projected(world, 5)
    projectors.signal(first, signal.SIGSTOP)
    stopped = time.monotonic()
    for _ in range(5):
        await world.told(*turn(new_id(), "Hello", "Hi"))
    second = await projectors.leader(other_than=first)
    assert time.monotonic() - stopped < 40
    await projected(world, 10)
    projectors.signal(first, signal.SIGCONT)
    for _ in range(5):
        await world.told(*turn(new_id(), "Hello", "Hi"))
    await projected(world, 15)
    await world.streams.grown("EVENTS", 15 * 7)
    published = [int(each.headers["Chat-Log-Position"]) for each in await world.streams.contents("EVENTS")]
    assert published == [entry.position for entry in await world.log.read(0, 1000)]
    listed = await conversations_of(world.pool, ACCOUNT, limit=100)
    assert [row.message_count for row in listed] == [2] * 15
    assert await projectors.leader() == second
    await projectors.wait_ready(first)


@pytest.mark.requirement("PROJECTION-LEADER")
async def test_shutdown_of_the_leader_hands_over_to_the_other(projectors: Projectors, world: World) -> None:
    for name in ("projector-1", "projector-2"):
        await projectors.start(name)
        await projectors.wait_ready(name)
    first = await projectors.leader()
    projectors.signal(first, signal.SIGTERM)
    async with asyncio.timeout(START_SECONDS):
        assert await projectors.processes[first].wait() == 0
    await projectors.leader(other_than=first)
    await world.told(*turn(new_id(), "Hello", "Hi"))
    await projected(world, 1)


@pytest.mark.requirement("HEALTH")
async def test_a_projector_is_ready_when_its_servers_answer(projectors: Projectors) -> None:
    await projectors.start("projector-1")
    await projectors.wait_ready("projector-1")
    status, body = await projectors.ready("projector-1")
    assert status == 200
    assert body == {"status": "ok", "checks": {"postgres": "ok", "nats": "ok", "log": "ok"}}


@pytest.mark.requirement("SETTINGS")
async def test_an_unset_setting_is_said_in_one_line() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "projector"), env=environment, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(START_SECONDS):
        _, said = await process.communicate()
    assert process.returncode == 2
    assert said.decode().splitlines() == ["AGENTCHAT_DATABASE_URL is not set"]


def _get(url: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
