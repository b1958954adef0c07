"""Several notifiers share what is to be sent, and one that has nothing to send costs next to nothing."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable

from tests.notifier.conftest import World, attempted
from tests.notifier.receiver import Received, status

_HEAVY = ("httpx2", "cryptography", "standardwebhooks", "eventsourcing", "nats", "net_guard")
_LOADED = f"""
import sys
import notifier.worker
print(*(name for name in {_HEAVY!r} if name in sys.modules))
"""


def test_nothing_that_sends_is_loaded_before_there_is_an_endpoint() -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    loaded = subprocess.run(
        [sys.executable, "-c", _LOADED], env=environ, capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []


async def test_one_session_listens_while_no_endpoint_is_enabled(world: World) -> None:
    process = world.start()

    async def until(holds: Callable[[int], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds(process.connections()):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)

    await until(lambda count: count == 1)
    made = await world.endpoint("/hook", "run.completed")
    await until(lambda count: count > 1)
    await world.execute("DELETE FROM webhook_endpoints WHERE endpoint_id = %s", made.id)
    await world.execute("SELECT pg_notify('webhook_endpoints', %s)", made.id)
    await until(lambda count: count == 1)


async def test_any_of_several_sends_and_nothing_is_sent_twice(world: World) -> None:
    paths = [f"/hook-{number}" for number in range(4)]
    made = [await world.endpoint(path, "run.completed") for path in paths]
    first, second = world.start("notifier-1"), world.start("notifier-2")
    for number in range(10):
        await world.chat(str(number))
    for endpoint in made:
        await world.until(endpoint.id, attempted(10))
    for count, stopped in enumerate((first, second), start=11):
        stopped.signal(signal.SIGSTOP)
        await world.chat(str(count))
        for endpoint in made:
            await world.until(endpoint.id, attempted(count))
        stopped.signal(signal.SIGCONT)
    assert len(world.receiver.received) == len({each.id for each in world.receiver.received}) == 4 * 12


async def test_one_that_ends_lets_its_requests_end_and_gives_its_endpoints_back(world: World) -> None:
    ending = asyncio.Event()

    async def answer_when_it_ends(_: Received) -> bytes:
        if len(world.receiver.received) == 1:
            process.signal(signal.SIGTERM)
            ending.set()
            await asyncio.sleep(0.3)  # the signal comes before the answer
        return status(204)

    world.receiver.does("/ends", answer_when_it_ends)
    endpoint = await world.endpoint("/ends", "run.completed")
    await world.chat("one")
    process = world.start(hurry={"notifier.endpoint_batch.AT_ONCE": 1})
    await ending.wait()
    await world.until(endpoint.id, attempted(1))
    await world.chat("two")
    world.start("notifier-2")
    got = await world.receiver.until("/ends", 2)
    assert got[0].id != got[1].id, "none was sent twice"
