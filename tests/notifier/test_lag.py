"""How far the notifier is behind the log, as its metrics show it."""

import asyncio

from contracts.ids import new_id
from conversations.event_store.log import Log
from notifier.schedule import FAILURES_IN_A_ROW
from runtime.postgres import connection
from tests.notifier.conftest import World
from tests.notifier.receiver import status
from tests.ports import free_port
from tests.support.scraped import scrape
from webhooks import endpoints

HURRY = {
    "notifier.dispatching._TIDY_SECONDS": 0.1,
    "notifier.schedule.RETRY_SECONDS": [3600.0] * 9,
    "notifier.schedule.LONGEST_PAUSE": 3600.0,
}
_FAILING = "agentchat_webhooks_endpoints_failing"
_BEHIND = "agentchat_webhooks_events_behind"


async def test_a_slow_receiver_is_behind_until_it_has_answered_and_one_that_fails_is_only_counted(
    world: World,
) -> None:
    gate = asyncio.Event()

    async def slow(_: object) -> bytes:
        await gate.wait()
        return status(204)

    world.receiver.does("/slow", slow)
    world.receiver.says("/fails", status(500))
    for path in ("/slow", "/fails"):
        await world.endpoint(path, "run.completed")
    port = free_port()
    world.start(hurry=HURRY, AGENTCHAT_HEALTH_PORT=str(port))
    for word in "abcdef":
        await world.chat(word)
    await world.receiver.until("/fails", FAILURES_IN_A_ROW)
    await world.chat("a")  # the one that fails is left in peace, and stays behind
    await _until(port, _FAILING, 1)
    await _until(port, _BEHIND, 1, 1000)
    gate.set()
    await _until(port, _BEHIND, 0)
    assert await scrape(port, _FAILING) == {"worker=notifier-1": 1}


async def test_an_endpoints_position_does_not_move_with_the_events_of_other_accounts(world: World) -> None:
    endpoint = await world.endpoint("/hook", "run.completed")
    await world.chat("b", account=new_id())
    assert (await endpoints.get(world.pool, world.account_id, endpoint.id)).position == 0
    world.start(hurry=HURRY)
    await world.chat("a")
    (delivered,) = await world.until(endpoint.id, lambda found: len(found) == 1)
    await world.chat("b", account=new_id())
    head = await Log(world.pool).head()
    async with asyncio.timeout(60):
        while (await _inserted_through(world)) < head:  # noqa: ASYNC110 - another task
            await asyncio.sleep(0.02)
    assert (await endpoints.get(world.pool, world.account_id, endpoint.id)).position == delivered.position


async def _inserted_through(world: World) -> int:
    async with connection(world.pool) as conn:
        row = await (await conn.execute("SELECT position FROM webhook_position")).fetchone()
    assert row is not None
    return int(row[0])


async def _until(port: int, name: str, least: int, most: int | None = None) -> None:
    wanted = range(least, (most or least) + 1)
    async with asyncio.timeout(60):
        while (await scrape(port, name)).get("worker=notifier-1") not in wanted:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
