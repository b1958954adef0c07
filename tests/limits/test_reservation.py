"""Runs under way keep back what they may cost, so that they cannot spend a month several times over."""

import asyncio

from redis.asyncio import Redis

from limits import Limiter, Quota
from limits.lua_scripts import RESERVED_TOKENS
from tests.limits.given import account_with, at, new

TOKENS = 10 * RESERVED_TOKENS


async def test_of_200_at_once_only_those_begin_whose_tokens_are_there(limiter: Limiter) -> None:
    quota = Quota(tokens_per_month=TOKENS)
    account = await account_with(limiter, TOKENS - 3 * RESERVED_TOKENS)
    traces = [new() for _ in range(200)]
    decisions = await asyncio.gather(*(limiter.admit(account, quota, trace) for trace in traces))
    admitted = [trace for trace, each in zip(traces, decisions, strict=True) if each.allowed]
    assert len(admitted) == 3
    refused = [each for each in decisions if not each.allowed]
    assert {(each.code, each.retry_after_s) for each in refused} == {("quota_exceeded", 1)}
    assert {each.tokens_remaining for each in refused} == {3 * RESERVED_TOKENS}
    assert (await limiter.admit(account, quota, admitted[0])).allowed, "it has its reservation"


async def test_a_reservation_ends_with_its_slot_settled_released_or_expired(limiter: Limiter) -> None:
    quota = Quota(tokens_per_month=TOKENS)
    account = await account_with(limiter, TOKENS - 1)  # room for one at a time
    released, expiring, settled = new(), new(), new()
    assert (await limiter.admit(account, quota, released)).allowed
    assert (await limiter.admit(account, quota, new())).code == "quota_exceeded"
    await limiter.release(account, released)
    assert (await limiter.admit(account, quota, expiring, slot_ttl_s=1)).allowed
    async with asyncio.timeout(30):
        while not (await limiter.admit(account, quota, settled)).allowed:  # noqa: ASYNC110 - as a caller would
            await asyncio.sleep(0.05)
    await limiter.settle(account, settled, 1, at())
    spent = await limiter.admit(account, quota, new())
    assert spent.code == "quota_exceeded"
    assert spent.tokens_remaining == 0
    assert spent.retry_after_s is not None
    assert spent.retry_after_s > 1


async def test_a_dear_run_raises_what_the_next_ones_reserve(limiter: Limiter, redis_url: str) -> None:
    quota = Quota(tokens_per_month=100 * TOKENS)
    account = await account_with(limiter, 0)
    await limiter.settle(account, new(), 50 * TOKENS, at())
    decisions = [await limiter.admit(account, quota, new()) for _ in range(3)]
    assert [each.allowed for each in decisions] == [True, False, False]
    async with Redis.from_url(redis_url, decode_responses=True) as redis:
        dear = [50 * TOKENS]
        for _ in range(30):
            await limiter.settle(account, new(), 1, at())
            dear.append(int(await redis.hget(f"limits:{{{account}}}:month", "dear") or 0))
    assert dear == sorted(dear, reverse=True)
    assert 40 * TOKENS < dear[1] < 50 * TOKENS
    assert dear[-1] < TOKENS
    assert (await limiter.admit(account, quota, new())).allowed


async def test_the_rate_alone_takes_no_slot_and_tells_every_number(limiter: Limiter) -> None:
    quota = Quota(requests_per_minute=10, concurrent_runs=1, tokens_per_month=TOKENS)
    account = await account_with(limiter, TOKENS - 1)
    assert (await limiter.admit(account, quota, new())).allowed
    alone = [await limiter.admit(account, quota, new(), slot_ttl_s=0) for _ in range(10)]
    assert [each.allowed for each in alone] == [True] * 9 + [False]
    assert [each.remaining for each in alone] == [*range(8, -1, -1), 0]
    assert {(each.runs_remaining, each.tokens_remaining) for each in alone} == {(0, 1)}
    assert alone[-1].code == "rate_limited"
