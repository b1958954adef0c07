"""The line before a busy conversation: who is woken, how many may wait, and whose place is kept."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from agentchat.contracts.ids import make_id
from agentchat.conversations.errors import WaiterLost, WaitingLineFull
from agentchat.conversations.leases.waiting_line import MAX_IN_CONVERSATION, WaitingLine
from agentchat.runtime.postgres import Pool, acquire_connection, open_pool
from tests.conversations.given import ACCOUNT, AT, LATER, trace
from tests.support.proxy import run_proxy

SECONDS = 40.0
_SILENCE = 1.2


@pytest.fixture(autouse=True)
async def empty_line(pool: Pool) -> None:
    async with acquire_connection(pool) as conn:
        await conn.execute("DELETE FROM waiting_line")


@contextlib.asynccontextmanager
async def follow_line(line: WaitingLine, database_url: str) -> AsyncIterator[None]:
    task = asyncio.create_task(line.follow(database_url))
    try:
        yield
    finally:
        task.cancel()


async def test_the_first_in_the_queue_is_woken_at_any_worker(pool: Pool, migrated_database_url: str) -> None:
    here = WaitingLine(pool, "one")
    elsewhere = WaitingLine(pool, "two", look_seconds=3600.0)  # by the notification alone
    async with follow_line(elsewhere, migrated_database_url):
        await here.join("c", trace("w0"), AT, ACCOUNT)
        for number in (1, 2, 3):
            await elsewhere.join("c", trace(f"w{number}"), AT, ACCOUNT)
        later = [asyncio.create_task(elsewhere.wait_until_first(trace(f"w{n}"), SECONDS)) for n in (1, 2, 3)]
        await here.leave(trace("w0"))
        for number, turn in enumerate(later, start=1):
            assert await turn
            assert not any(each.done() for each in later[number:])
            await elsewhere.leave(trace(f"w{number}"))


async def test_first_after_an_expired_lease_needs_no_notification(
    pool: Pool, migrated_database_url: str
) -> None:
    dead, line = WaitingLine(pool, "dead"), WaitingLine(pool, "one", look_seconds=0.2)
    await dead.join("c", trace("a"), AT, ACCOUNT)
    await line.join("c", trace("b"), LATER, ACCOUNT)
    async with follow_line(line, migrated_database_url):
        later = asyncio.create_task(line.wait_until_first(trace("b"), SECONDS))
        async with acquire_connection(pool) as conn:
            await conn.execute("UPDATE waiting_line SET expires_at = now() WHERE trace_id = %s", [trace("a")])
        assert await later


async def test_waiting_redelivery_learns_when_the_first_leaves(pool: Pool) -> None:
    line = WaitingLine(pool, "one")
    await line.join("c", trace("a"), AT, ACCOUNT)
    for _ in range(2):
        await line.join("c", trace("b"), LATER, ACCOUNT)
    second = asyncio.create_task(line.wait_until_first(trace("b"), SECONDS))
    async with asyncio.timeout(SECONDS):
        line.leave_to_successor(trace("b"))  # whether or not the other has begun to wait
        with pytest.raises(WaiterLost):
            await second
    with pytest.raises(WaiterLost):
        await line.wait_until_first(trace("b"), SECONDS)


async def test_waiting_polls_nothing(migrated_database_url: str) -> None:
    async with run_proxy(migrated_database_url) as (proxy, url), open_pool(url) as pool:
        line = WaitingLine(pool, "one")
        conversation_ids = [make_id() for _ in range(5)]
        async with follow_line(line, url):
            for number, conversation_id in enumerate(conversation_ids * 10):
                await line.join(conversation_id, trace(f"{number:02}"), AT, ACCOUNT)
            waits = [
                asyncio.create_task(line.wait_until_first(trace(f"{n:02}"), _SILENCE)) for n in range(50)
            ]
            await asyncio.wait(waits[:5])  # the first of each line
            await asyncio.sleep(_SILENCE / 3)
            sent = proxy.received
            await asyncio.sleep(_SILENCE / 3)
            assert proxy.received == sent
            assert [await each for each in waits] == [True] * 5 + [False] * 45


async def test_the_waiting_line_of_a_conversation_is_bounded(pool: Pool) -> None:
    line = WaitingLine(pool, "one")
    for number in range(MAX_IN_CONVERSATION):
        await line.join("c", trace(f"w{number:02}"), AT, ACCOUNT)
    with pytest.raises(WaitingLineFull):
        await line.join("c", trace("one more"), AT, ACCOUNT)
    await line.join("c", trace("w00"), AT, ACCOUNT)  # who has had a place keeps it
    await line.join("other", trace("elsewhere"), AT, ACCOUNT)
    await line.leave(trace("w00"))
    await line.join("c", trace("one more"), AT, ACCOUNT)


async def test_the_waiting_line_of_an_account_is_bounded(pool: Pool) -> None:
    line = WaitingLine(pool, "one", max_in_account=3)
    for number in range(3):
        await line.join(f"c{number}", trace(f"w{number}"), AT, ACCOUNT)
    with pytest.raises(WaitingLineFull):
        await line.join("c3", trace("w3"), AT, ACCOUNT)
    await line.join("c4", trace("theirs"), AT, "another account")


async def test_a_place_that_is_kept_for_the_next_worker_still_counts(pool: Pool) -> None:
    old, line = WaitingLine(pool, "old"), WaitingLine(pool, "next")
    await old.join("c", trace("a"), AT, ACCOUNT)
    await line.join("c", trace("b"), LATER, ACCOUNT)
    old.leave_to_successor(trace("a"))
    assert not await line.is_first("c", trace("b"))
    await line.join("c", trace("a"), AT, ACCOUNT)
    assert await line.is_first("c", trace("a"))
