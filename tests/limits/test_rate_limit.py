"""A rate of N a minute lets at most N + N * t / 60 requests pass in any t seconds."""

import itertools
from bisect import bisect_right

from hypothesis import given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from agentchat.limits import decide_in_redis
from agentchat.limits.admission import Rate
from agentchat.limits.decide_locally import LocalLimiter
from tests.limits.given import Quota, make_id

ON_OUR_CLOCK = decide_in_redis.ADMIT.replace("redis.call('TIME')", "{ARGV[9], ARGV[10]}")
NO_USER = (0, 0, -1)
START = 1_795_000_000_000_000

RATES = st.sampled_from([1, 2, 7, 60, 600, 6000, 59_999])
GAPS = st.lists(
    st.one_of(
        st.integers(0, 2),
        st.integers(0, 200_000),
        st.integers(900_000, 1_100_000),
        st.integers(0, 90_000_000),
    ),
    min_size=1,
    max_size=60,
)
"""Microseconds between two bursts of questions."""
BURSTS = st.integers(1, 12)


def check(rate: int, passed: list[int]) -> None:
    """Check every window that begins and ends with a request that passed; others hold no more."""
    for first, begin in enumerate(passed):
        for last in range(first, len(passed)):
            assert (last - first + 1) <= rate + rate * (passed[last] - begin) / 60e6 + 1e-9


def ask(gaps: list[int], burst: int) -> list[int]:
    """Return the times of the requests, in microseconds."""
    times = itertools.accumulate(gaps)
    return [moment for moment in times for _ in range(burst)]


@settings(max_examples=60)
@given(RATES, GAPS, BURSTS)
async def test_in_redis(redis_url: str, rate: int, gaps: list[int], burst: int) -> None:
    keys = [f"limits:{{{make_id()}}}:{part}" for part in ("rate", "slots", "user:a:rate", "user:a:runs")]
    moments, interval = ask(gaps, burst), Rate(rate, rate).interval_us
    async with Redis.from_url(redis_url) as redis, redis.pipeline(transaction=False) as pipeline:
        for moment in moments:
            seconds, rest = divmod(START + moment, 1_000_000)
            arguments: list[str | int] = [make_id(), interval, rate, -1, 1000, *NO_USER, seconds, rest]
            pipeline.eval(ON_OUR_CLOCK, 4, *keys, *arguments)
        decisions = await pipeline.execute()
    passed = [moment for moment, decision in zip(moments, decisions, strict=True) if decision[0] == 0]
    check(rate, passed)
    check_told(moments, [(decision[0] == 0, decision[0]) for decision in decisions])


@settings(max_examples=100)
@given(RATES, GAPS, BURSTS)
async def test_in_the_process(rate: int, gaps: list[int], burst: int) -> None:
    now = 0.0
    limiter = LocalLimiter(clock=lambda: now)
    quota = Quota(requests_per_minute=rate)
    passed = []
    for moment in ask(gaps, burst):
        now = 1000 + moment / 1e6
        if limiter.admit("account", quota).allowed:
            passed.append(moment)
    check(rate, passed)


def check_told(moments: list[int], decisions: list[tuple[bool, int]]) -> None:
    """Check that a request passes that comes no sooner than the last refusal said."""
    for place, (allowed, retry_us) in enumerate(decisions):
        if not allowed:
            following = bisect_right(moments, moments[place] + retry_us - 1)
            between = decisions[place + 1 : following]
            if following < len(decisions) and not any(passed for passed, _ in between):
                assert decisions[following][0]
