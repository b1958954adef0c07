"""Admission under rate limits and slots: in Redis by a script, in the process when Redis is away."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import pytest

from agentchat.limits import Admission, Limiter, Quota
from agentchat.limits.local_limiter import LocalLimiter
from tests.limits.given import make_id

Admit: TypeAlias = Callable[[str, Quota, str], Awaitable[Admission]]
Release: TypeAlias = Callable[[str, str], Awaitable[None]]
AdmitAndRelease: TypeAlias = tuple[Admit, Release]


@pytest.fixture(params=["redis", "local"])
async def calls(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[AdmitAndRelease]:
    """The same questions to either limiter."""
    if request.param == "redis":
        limiter = Limiter(redis_url, instance="test", timeout=5)

        async def release(account: str, trace: str) -> None:
            await limiter.release(account, trace)

        yield limiter.admit, release
        await limiter.aclose()
        return
    local = LocalLimiter()

    async def admit_locally(account: str, quota: Quota, trace: str) -> Admission:
        return local.admit(account, quota, trace, lease_s=60)

    async def end(account: str, trace: str) -> None:
        local.end(account, trace)

    yield admit_locally, end


async def test_of_200_at_once_exactly_n_are_admitted_every_time(calls: AdmitAndRelease) -> None:
    admit, release = calls
    for runs in (1, 2, 20, 20, 20, 199, 200):
        account, quota = make_id(), Quota(concurrent_runs=runs)
        traces = [make_id() for _ in range(200)]
        decisions = await asyncio.gather(*(admit(account, quota, trace) for trace in traces))
        admitted = [trace for trace, decision in zip(traces, decisions, strict=True) if decision.allowed]
        assert len(admitted) == runs
        refused = [decision for decision in decisions if not decision.allowed]
        assert {decision.retry_after_s for decision in refused} <= {1}
        await asyncio.gather(*(release(account, trace) for trace in admitted))
        assert (await admit(account, quota, make_id())).allowed


async def test_the_rate_limit_lets_n_pass_at_once_and_tells_the_next_when(calls: AdmitAndRelease) -> None:
    admit, _ = calls
    account, quota = make_id(), Quota(requests_per_minute=5)
    decisions = [await admit(account, quota, make_id()) for _ in range(6)]
    assert [decision.allowed for decision in decisions] == [True] * 5 + [False]
    assert [decision.remaining for decision in decisions] == [4, 3, 2, 1, 0, 0]
    assert decisions[-1].retry_after_s == 12
    assert decisions[-1].reset_s == 60


async def test_asking_again_for_a_held_run_takes_nothing_more(calls: AdmitAndRelease) -> None:
    admit, release = calls
    account, quota, trace = make_id(), Quota(requests_per_minute=2, concurrent_runs=1), make_id()
    for _ in range(5):
        decision = await admit(account, quota, trace)
        assert decision.allowed is True
        assert decision.remaining == 1
    await release(account, trace)
    assert (await admit(account, quota, make_id())).allowed


async def test_a_refused_request_takes_no_token_and_no_slot(calls: AdmitAndRelease) -> None:
    admit, release = calls
    account, quota, held = make_id(), Quota(requests_per_minute=3, concurrent_runs=1), make_id()
    assert (await admit(account, quota, held)).remaining == 2
    for _ in range(10):
        decision = await admit(account, quota, make_id())
        assert decision.allowed is False
        assert decision.remaining == 2
    await release(account, held)
    second = make_id()
    assert (await admit(account, quota, second)).remaining == 1
    await release(account, second)
    third = make_id()
    assert (await admit(account, quota, third)).remaining == 0
    await release(account, third)
    assert not (await admit(account, quota, make_id())).allowed
    other = Quota(concurrent_runs=1)
    assert (await admit(account, other, make_id())).allowed


async def test_a_plan_without_numbers_limits_nothing_and_tells_no_numbers(calls: AdmitAndRelease) -> None:
    admit, _ = calls
    account = make_id()
    decisions = await asyncio.gather(*(admit(account, Quota(), make_id()) for _ in range(300)))
    assert all(decision.allowed for decision in decisions)
    assert {(d.remaining, d.reset_s, d.retry_after_s) for d in decisions} == {(None,) * 3}


async def test_a_raised_rate_counts_at_the_next_request(calls: AdmitAndRelease) -> None:
    admit, _ = calls
    account = make_id()
    assert (await admit(account, Quota(requests_per_minute=1), make_id())).allowed
    assert not (await admit(account, Quota(requests_per_minute=1), make_id())).allowed
    assert (await admit(account, Quota(requests_per_minute=600), make_id())).retry_after_s in (None, 1)
