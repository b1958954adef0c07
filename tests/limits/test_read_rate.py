"""The read rate limit: next to the chat endpoints ten times the plan's rate, a tenth of it at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest
from redis.asyncio import Redis

from agentchat.limits import Limiter
from tests.limits.given import Quota, make_id

Read: TypeAlias = Callable[[str, Quota], Awaitable[int | None]]


@pytest.fixture(params=["redis", "local"])
async def read(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[Read]:
    """The same question while Redis answers, and while it is away."""
    url = redis_url if request.param == "redis" else "redis://127.0.0.1:9/0"
    limiter = Limiter(url, instance="test", timeout=5)
    yield limiter.admit_read
    await limiter.aclose()


@pytest.mark.parametrize(("rate", "at_once"), [(1, 60), (60, 60), (600, 600)])
async def test_the_read_rate_limit_tells_the_next_when_to_retry(read: Read, rate: int, at_once: int) -> None:
    account, quota = make_id(), Quota(requests_per_minute=rate, concurrent_runs=1)
    waits = await asyncio.gather(*(read(account, quota) for _ in range(at_once)))
    assert waits == [None] * at_once
    more = await asyncio.gather(*(read(account, quota) for _ in range(at_once)))
    assert 1 in more  # a few tokens have come back meanwhile
    assert await read(make_id(), quota) is None, "another account has its own"


async def test_a_plan_without_a_rate_bounds_no_reads(read: Read) -> None:
    account = make_id()
    assert set(await asyncio.gather(*(read(account, Quota()) for _ in range(700)))) == {None}


@pytest.mark.parametrize("away", [False, True])
async def test_writes_have_a_rate_of_their_own(redis_url: str, away: bool) -> None:
    limiter = Limiter("redis://127.0.0.1:9/0" if away else redis_url, instance="test", timeout=5)
    account, quota = make_id(), Quota(requests_per_minute=1)
    assert [await limiter.admit_write(account, quota) for _ in range(20)] == [None] * 20
    assert await limiter.admit_write(account, quota) == 1
    assert await limiter.admit_read(account, quota) is None
    assert (await limiter.admit(account, quota, make_id())).allowed
    assert await limiter.admit_write(account, Quota()) is None, "a plan without a rate bounds none"
    await limiter.aclose()


async def test_reads_and_messages_do_not_use_up_each_other(redis_url: str) -> None:
    limiter, account, quota = (
        Limiter(redis_url, instance="test", timeout=5),
        make_id(),
        Quota(requests_per_minute=2),
    )
    assert [(await limiter.admit(account, quota, make_id())).allowed for _ in range(3)] == [True, True, False]
    assert await limiter.admit_read(account, quota) is None
    await asyncio.gather(*(limiter.admit_read(account, quota) for _ in range(100)))
    assert (await limiter.admit(account, quota, make_id())).account.remaining == 0
    async with Redis.from_url(redis_url) as redis:
        kept: Any = await redis.pttl(f"limits:{{{account}}}:reads")
    assert 0 < kept <= 61_000
    await limiter.aclose()
