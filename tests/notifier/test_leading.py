"""Which notifier sends, and what one costs that has nothing to send."""

import asyncio
import os
import signal
import subprocess
import sys

import psycopg
import pytest

from tests.notifier.conftest import StartNotifier, World
from tests.notifier.receiver import Receiver

_HEAVY = ("httpx2", "cryptography", "standardwebhooks", "eventsourcing", "nats", "net_guard")
_LOADED = f"""
import sys
import notifier.worker
print(*(name for name in {_HEAVY!r} if name in sys.modules))
"""

_SESSIONS = """
SELECT query FROM pg_stat_activity WHERE application_name LIKE 'notifier-%' AND datname = current_database()
"""


@pytest.mark.requirement("WEBHOOK-IDLE")
def test_nothing_that_sends_is_loaded_before_there_is_an_endpoint() -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    loaded = subprocess.run(
        [sys.executable, "-c", _LOADED], env=environ, capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []


@pytest.mark.requirement("WEBHOOK-IDLE")
async def test_appends_are_followed_only_while_there_is_an_endpoint_that_is_enabled(
    world: World, migrated_database_url: str, notifiers: StartNotifier, receiver: Receiver
) -> None:
    notifiers()

    async def sessions(count: int) -> None:
        opening = psycopg.AsyncConnection.connect(migrated_database_url, autocommit=True)
        async with asyncio.timeout(60), await opening as conn:
            while True:
                if len(await (await conn.execute(_SESSIONS)).fetchall()) == count:
                    return
                await asyncio.sleep(0.05)

    await sessions(1)
    made = await world.endpoint(receiver.url("/hook"), "run.completed")
    await sessions(2)
    await world.execute("DELETE FROM webhook_endpoints WHERE endpoint_id = %s", made.id)
    await world.execute("SELECT pg_notify('webhook_endpoints', %s)", made.id)
    await sessions(1)


@pytest.mark.requirement("WEBHOOK-DELIVERY")
async def test_of_several_one_sends_and_another_takes_over_when_it_is_gone(
    world: World, receiver: Receiver, notifiers: StartNotifier
) -> None:
    endpoint = await world.endpoint(receiver.url("/hook"), "run.completed")
    first = notifiers("notifier-1")
    await world.chat("one")
    await receiver.until("/hook", 1)
    notifiers("notifier-2")
    await world.chat("two")
    await receiver.until("/hook", 2)
    await world.until(endpoint.id, lambda found: len(found) == 2)
    first.signal(signal.SIGTERM)
    await world.chat("three")
    got = await receiver.until("/hook", 3)
    assert len({each.id for each in got}) == 3, "none was sent twice"
    await world.until(endpoint.id, lambda found: len(found) == 3)
