"""What disturbs a batch that is being sent: an outage of Postgres, a restart of the endpoint, a change.

And an answer without an end.
"""

import asyncio

import psycopg

from conversations.event_store.log import Log
from notifier.schedule import FAILURES_IN_A_ROW
from runtime.postgres import connection
from tests.notifier.conftest import World, attempted
from tests.notifier.receiver import Received, status
from webhooks import deliveries


async def test_what_was_sent_is_not_sent_again_because_a_reply_cannot_be_read_yet(
    world: World, migrated_database_url: str
) -> None:
    await world.endpoint("/full", "conversation.started", "run.completed", payload="full")
    await world.chat()
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:

        async def lock_the_log(_: Received) -> bytes:
            await owner.execute("LOCK TABLE conversation_events IN ACCESS EXCLUSIVE MODE")
            return status(204)

        world.receiver.does("/full", lock_the_log)
        process = world.start(hurry={"notifier.endpoint_batch.AT_ONCE": 1})
        await world.receiver.until("/full", 1)
        world.receiver.says("/full", status(204))
        async with asyncio.timeout(60):
            while "cannot_" not in process.text():  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
        await owner.rollback()
    got = await world.receiver.until("/full", 2)
    assert [each.message["type"] for each in got[:2]] == ["conversation.started", "run.completed"]


async def test_what_fails_together_is_one_failure_to_the_pause_that_doubles(world: World) -> None:
    """An endpoint that restarts, with requests under way, is asked again within seconds."""
    all_here = asyncio.Barrier(20)

    async def fail(_: Received) -> bytes:
        await all_here.wait()
        return status(503)

    world.receiver.does("/restarts", fail)
    endpoint = await world.endpoint("/restarts", "run.completed")
    for number in range(20):
        await world.chat(str(number))
    world.start(hurry={"notifier.schedule.RETRY_SECONDS": [3600.0]})
    await world.until(endpoint.id, attempted(20))
    async with connection(world.pool) as conn:
        row = await (await conn.execute("SELECT failures FROM webhook_endpoints")).fetchone()
    assert row == (FAILURES_IN_A_ROW,)


async def test_what_is_replayed_while_it_is_sent_is_sent_again(world: World) -> None:
    async def until_inserted() -> None:
        async with connection(world.pool) as conn:
            while await (await conn.execute("SELECT FROM webhook_cursors WHERE until > 0")).fetchone():  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)

    async def replay_it_meanwhile(_: Received) -> bytes:
        if len(world.receiver.at("/meanwhile")) == 1:
            end = await Log(world.pool).head() + 1000
            await deliveries.replay(world.pool, world.account_id, endpoint.id, 1, end)
            await until_inserted()
        return status(204)

    world.receiver.does("/meanwhile", replay_it_meanwhile)
    endpoint = await world.endpoint("/meanwhile", "run.completed")
    world.start()
    await world.chat()
    first, second = await world.receiver.until("/meanwhile", 2)
    assert first.id == second.id
    [delivery] = await world.until(endpoint.id, lambda found: found[0].status == "delivered")
    assert len(delivery.attempts) == 2


async def test_a_replay_asked_for_during_another_repeats_nothing_of_it(world: World) -> None:
    endpoint = await world.endpoint("/again", "run.completed")
    world.start()
    for number in range(2):
        await world.chat(str(number))
    live = await world.receiver.until("/again", 2)
    await world.until(endpoint.id, attempted(2))
    first, second = sorted(each.message["data"]["position"] for each in live)

    async def ask_for_the_second(_: Received) -> bytes:
        if len(world.receiver.at("/again")) == 3:
            await deliveries.replay(world.pool, world.account_id, endpoint.id, second, second)
            heard = await world.endpoint("/heard", "run.failed")
            await deliveries.test(world.pool, world.account_id, heard.id, "run.failed")
            await world.receiver.until("/heard", 1)  # so the notifier knows of the replay
        return status(204)

    world.receiver.does("/again", ask_for_the_second)
    await deliveries.replay(world.pool, world.account_id, endpoint.id, first, first)
    got = await world.receiver.until("/again", 4)
    assert [each.message["data"]["position"] for each in got[2:]] == [first, second]


async def test_an_answer_whose_body_never_ends_counts_by_its_status(world: World) -> None:
    world.receiver.says("/endless", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{")
    endpoint = await world.endpoint("/endless", "run.completed")
    world.start(hurry={"notifier.delivery_attempt.ATTEMPT_SECONDS": 3.0})
    await world.chat()
    [delivery] = await world.until(endpoint.id, lambda found: bool(found) and found[0].status != "waiting")
    assert delivery.status == "delivered"
