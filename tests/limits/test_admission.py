"""Admission under rate limits and slots: in Redis by a script, in the process when Redis is away."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeAlias

import pytest

from agentchat.limits import Admission, Limiter
from agentchat.limits.decide_locally import LocalLimiter
from tests.limits.given import Quota, make_id


class Admit(Protocol):
    def __call__(
        self, account: str, quota: Quota, trace: str, user: str | None = None
    ) -> Awaitable[Admission]: ...


Release: TypeAlias = Callable[[str, str], Awaitable[None]]
AdmitAndRelease: TypeAlias = tuple[Admit, Release]


@pytest.fixture
async def calls(redis_url: str) -> AsyncIterator[AdmitAndRelease]:
    limiter = Limiter(redis_url, instance="test", timeout=5)

    async def admit(account: str, quota: Quota, trace: str, user: str | None = None) -> Admission:
        return await limiter.admit(account, quota, trace, user_id=user)

    yield admit, limiter.release
    await limiter.aclose()


@pytest.fixture(params=["redis", "local"])
async def admit(request: pytest.FixtureRequest, calls: AdmitAndRelease) -> Admit:
    """Ask either limiter, for what both decide."""
    local = LocalLimiter()

    async def admit_locally(
        account: str,
        quota: Quota,
        trace: str,
        user: str | None = None,
    ) -> Admission:
        return local.admit(account, quota, user=user)

    return calls[0] if request.param == "redis" else admit_locally


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


async def test_the_rate_limit_lets_n_pass_at_once_and_tells_the_next_when(admit: Admit) -> None:
    account, quota = make_id(), Quota(requests_per_minute=5)
    decisions = [await admit(account, quota, make_id()) for _ in range(6)]
    assert [decision.allowed for decision in decisions] == [True] * 5 + [False]
    assert [decision.account.remaining for decision in decisions] == [4, 3, 2, 1, 0, 0]
    assert decisions[-1].retry_after_s == 12
    assert decisions[-1].account.reset_s == 60


async def test_asking_again_for_a_held_run_takes_nothing_more(calls: AdmitAndRelease) -> None:
    admit, release = calls
    account, quota, trace = make_id(), Quota(requests_per_minute=2, concurrent_runs=1), make_id()
    for _ in range(5):
        decision = await admit(account, quota, trace)
        assert decision.allowed is True
        assert decision.account.remaining == 1
    await release(account, trace)
    assert (await admit(account, quota, make_id())).allowed


async def test_a_refused_request_takes_no_token_and_no_slot(calls: AdmitAndRelease) -> None:
    admit, release = calls
    account, quota, held = make_id(), Quota(requests_per_minute=3, concurrent_runs=1), make_id()
    assert (await admit(account, quota, held)).account.remaining == 2
    for _ in range(10):
        decision = await admit(account, quota, make_id())
        assert decision.allowed is False
        assert decision.account.remaining == 2
    await release(account, held)
    second = make_id()
    assert (await admit(account, quota, second)).account.remaining == 1
    await release(account, second)
    third = make_id()
    assert (await admit(account, quota, third)).account.remaining == 0
    await release(account, third)
    assert not (await admit(account, quota, make_id())).allowed
    other = Quota(concurrent_runs=1)
    assert (await admit(account, other, make_id())).allowed


async def test_a_plan_without_numbers_limits_nothing_and_tells_no_numbers(admit: Admit) -> None:
    account = make_id()
    decisions = await asyncio.gather(*(admit(account, Quota(), make_id()) for _ in range(300)))
    assert all(decision.allowed for decision in decisions)
    assert {(d.account.remaining, d.account.reset_s, d.retry_us) for d in decisions} == {(0, 0, 0)}


async def test_a_raised_rate_counts_at_the_next_request(admit: Admit) -> None:
    account = make_id()
    assert (await admit(account, Quota(requests_per_minute=1), make_id())).allowed
    assert not (await admit(account, Quota(requests_per_minute=1), make_id())).allowed
    assert (await admit(account, Quota(requests_per_minute=600), make_id())).retry_after_s == 1


async def test_each_user_has_a_rate_within_that_of_the_account(admit: Admit) -> None:
    account, quota = make_id(), Quota(requests_per_minute=5, user_requests_per_minute=2)
    decisions = [await admit(account, quota, make_id(), "ada") for _ in range(3)]
    assert [decision.allowed for decision in decisions] == [True, True, False]
    assert [decision.user and decision.user.remaining for decision in decisions] == [1, 0, 0]
    assert [decision.account.remaining for decision in decisions] == [4, 3, 3], (
        "a refused request takes no token"
    )
    assert (decisions[-1].by_user, decisions[-1].retry_after_s) == (True, 30)
    bob = (await admit(account, quota, make_id(), "bob")).user
    assert bob is not None
    assert bob.remaining == 1
    unnamed = [await admit(account, quota, make_id()) for _ in range(3)]
    assert [decision.allowed for decision in unnamed] == [True, True, False]
    assert (unnamed[-1].by_user, unnamed[0].user) == (False, None)


async def test_each_user_has_runs_within_those_of_the_account(calls: AdmitAndRelease) -> None:
    admit, release = calls
    account, quota, held = make_id(), Quota(concurrent_runs=3, user_concurrent_runs=1), make_id()
    ada = (await admit(account, quota, held, "ada")).user
    assert ada is not None
    assert ada.runs == 1
    assert (await admit(account, quota, held, "ada")).allowed, "it has its slot"
    refused = await admit(account, quota, make_id(), "ada")
    assert (refused.allowed, refused.by_user, refused.account.runs) == (False, True, 1)
    assert (await admit(account, quota, make_id(), "bob")).allowed
    await release(account, held)
    assert (await admit(account, quota, make_id(), "ada")).allowed
