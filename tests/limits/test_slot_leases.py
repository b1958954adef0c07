"""Leases of slots, which only Redis keeps."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from agentchat.limits import Limiter
from tests.limits.given import Quota, make_id


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator["Redis"]:
    client = Redis.from_url(redis_url, decode_responses=True)
    yield client
    await client.aclose()


async def wait_until_admitted(limiter: Limiter, account: str, quota: Quota, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not (await limiter.admit(account, quota, make_id())).allowed:  # noqa: ASYNC110 - as a caller would
            await asyncio.sleep(0.05)


async def test_the_slot_lease_of_a_dead_run_expires(limiter: Limiter) -> None:
    account, quota = make_id(), Quota(concurrent_runs=1)
    began = time.monotonic()
    assert (await limiter.admit(account, quota, make_id(), slot_ttl_s=1)).allowed
    assert not (await limiter.admit(account, quota, make_id())).allowed
    await wait_until_admitted(limiter, account, quota, 30)
    assert time.monotonic() - began > 0.9


async def test_a_held_slot_outlives_its_first_lease(limiter: Limiter) -> None:
    account, quota, trace = make_id(), Quota(concurrent_runs=1), make_id()
    await limiter.admit(account, quota, trace, slot_ttl_s=1)
    assert await limiter.hold([(account, trace), (make_id(), make_id())], ttl_s=30)
    await asyncio.sleep(1.1)
    assert not (await limiter.admit(account, quota, make_id())).allowed
    await limiter.release(account, trace)
    assert (await limiter.admit(account, quota, make_id())).allowed


async def test_holding_never_shortens_a_lease(limiter: Limiter, redis: "Redis") -> None:
    account, trace = make_id(), make_id()
    await limiter.admit(account, Quota(), trace, slot_ttl_s=60)
    before = await redis.zscore(f"limits:{{{account}}}:slots", trace)
    await limiter.hold([(account, trace)], ttl_s=1)
    assert await redis.zscore(f"limits:{{{account}}}:slots", trace) == before


async def test_lost_slot_is_taken_again_unless_run_has_ended(limiter: Limiter, redis: "Redis") -> None:
    account, quota, lost, settled = make_id(), Quota(concurrent_runs=1), make_id(), make_id()
    await limiter.admit(account, quota, lost)
    await redis.delete(f"limits:{{{account}}}:slots")
    await limiter.hold([(account, lost)])
    assert not (await limiter.admit(account, quota, make_id())).allowed
    await limiter.release(account, lost, ended=True)
    await limiter.admit(account, quota, settled)
    await limiter.release(account, settled, ended=True)
    await limiter.hold([(account, settled), (account, lost)])
    assert (await limiter.admit(account, quota, make_id())).allowed


async def test_a_clock_set_back_does_not_shut_an_account_out(limiter: Limiter, redis: "Redis") -> None:
    account, quota = make_id(), Quota(requests_per_minute=60)
    await limiter.admit(account, quota, make_id())
    await redis.set(f"limits:{{{account}}}:rate", int((time.time() + 86400) * 1e6))
    refused = await limiter.admit(account, quota, make_id())
    assert refused.retry_after_s == 1


async def test_nothing_is_kept_for_ever(limiter: Limiter, redis: "Redis") -> None:
    account, trace = make_id(), make_id()
    await limiter.admit(account, Quota(requests_per_minute=60), trace)
    await limiter.hold([(account, trace)])
    await limiter.release(account, make_id(), ended=True)
    keys = [key async for key in redis.scan_iter(f"limits:{{{account}}}:*")]
    assert all([await redis.pttl(key) > 0 for key in keys])


async def test_a_cancelled_question_leaves_the_next_answers_right(limiter: Limiter) -> None:
    quota = Quota(requests_per_minute=1000)
    accounts = [make_id() for _ in range(50)]
    for account in accounts:
        asked = asyncio.create_task(limiter.admit(account, quota, make_id()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    for limit in range(2, 30):
        decision = await limiter.admit(make_id(), Quota(requests_per_minute=limit), make_id())
        assert decision.allowed is True
        assert decision.account.remaining == limit - 1
