"""Redis frozen, gone, restarted or emptied: limits fall back to the process."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvloop
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection

from agentchat.limits import Limiter
from tests.limits.given import Quota, make_id

BOUND = 15.0  # 0.25 s where nothing else runs; 59 s as the Redis client comes


class Watched(Limiter):
    """A limiter that keeps what its fallback was told."""

    def __init__(self, url: str) -> None:
        self.reasons: list[str] = []
        super().__init__(url, instance="test", on_fallback=self.reasons.append)

    async def wait_until_redis_decides(self, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while (await self.admit(make_id(), Quota(), make_id())).local:  # noqa: ASYNC110 - as a caller would
                await asyncio.sleep(0.05)


@pytest.fixture
async def limiter(valkey: Any) -> AsyncIterator[Watched]:
    opened = Watched(valkey.url)
    assert not (await opened.admit(make_id(), Quota(), make_id())).local
    yield opened
    await opened.aclose()


async def time_decision(limiter: Limiter, account: str, quota: Quota) -> tuple[float, bool]:
    began = time.monotonic()
    decision = await limiter.admit(account, quota, make_id())
    assert decision.local
    return time.monotonic() - began, decision.allowed


async def test_a_frozen_redis_costs_one_bounded_wait_and_then_none(valkey: Any, limiter: Watched) -> None:
    account, quota = make_id(), Quota(requests_per_minute=5)
    valkey.freeze()
    first = await time_decision(limiter, account, quota)
    rest = [await time_decision(limiter, account, quota) for _ in range(9)]
    valkey.thaw()
    assert first[0] < BOUND
    assert max(seconds for seconds, _ in rest) < BOUND
    assert [allowed for _, allowed in [first, *rest]] == [True] * 5 + [False] * 5
    assert limiter.reasons == ["timeout"] + ["open"] * 9
    await limiter.wait_until_redis_decides(30)


async def test_200_questions_to_a_frozen_redis_are_all_answered_in_time(
    valkey: Any, limiter: Watched
) -> None:
    account, quota = make_id(), Quota(requests_per_minute=7)
    valkey.freeze()
    answers = await asyncio.gather(*(time_decision(limiter, account, quota) for _ in range(200)))
    valkey.thaw()
    assert max(seconds for seconds, _ in answers) < BOUND
    assert sum(allowed for _, allowed in answers) == 7


async def test_killed_redis_is_skipped_and_used_again_when_back(valkey: Any, limiter: Watched) -> None:
    await valkey.kill()
    seconds, allowed = await time_decision(limiter, make_id(), Quota(requests_per_minute=1))
    assert (seconds < BOUND) is True
    assert allowed is True
    assert not await limiter.hold([(make_id(), make_id())])
    await valkey.start()
    await limiter.wait_until_redis_decides(30)


async def test_an_emptied_redis_is_told_the_scripts_again(valkey: Any, limiter: Watched) -> None:
    async with Redis.from_url(valkey.url) as client:
        await client.flushall()
        await client.script_flush()
    assert not (await limiter.admit(make_id(), Quota(requests_per_minute=1), make_id())).local
    assert limiter.reasons == []


async def test_a_release_waits_no_longer_than_a_decision(valkey: Any, limiter: Watched) -> None:
    account, trace = make_id(), make_id()
    await limiter.admit(account, Quota(concurrent_runs=1), trace)
    valkey.freeze()
    began = time.monotonic()
    await limiter.release(account, trace, ended=True)
    await limiter.release(account, trace, ended=True)
    assert time.monotonic() - began < BOUND
    valkey.thaw()
    await limiter.wait_until_redis_decides(30)


async def test_a_ping_tells_whether_redis_answers(valkey: Any, limiter: Watched) -> None:
    await limiter.ping()
    valkey.freeze()
    with pytest.raises(Exception, match=r"(?i)timeout|^$"):
        await limiter.ping()
    valkey.thaw()


async def test_a_process_that_is_late_itself_does_not_take_redis_for_away(limiter: Watched) -> None:
    account, quota = make_id(), Quota(concurrent_runs=20)

    async def request() -> bool:
        time.sleep(0.003)  # noqa: ASYNC251 - the loop is kept busy, for 0.6 s in one turn
        decision = await limiter.admit(account, quota, make_id())
        time.sleep(0.002)  # noqa: ASYNC251
        return decision.allowed

    assert sum(await asyncio.gather(*(request() for _ in range(200)))) == 20
    assert limiter.reasons == []


def _reset_before_the_next_write(patch: pytest.MonkeyPatch) -> None:
    """Reset the connection as a server does, between the client's check and its next write."""
    send = AbstractConnection.send_packed_command

    async def reset_and_send(connection: Any, *arguments: Any, **more: Any) -> None:
        patch.undo()
        connection._writer.transport.abort()
        await send(connection, *arguments, **more)

    patch.setattr(AbstractConnection, "send_packed_command", reset_and_send)


def test_reset_connection_is_decided_locally_and_reopened(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On uvloop, as services run, where a write to a closed connection is a RuntimeError."""

    async def work() -> None:
        limiter = Watched(redis_url)
        try:
            await limiter.wait_until_redis_decides(10)
            _reset_before_the_next_write(monkeypatch)
            async with asyncio.timeout(BOUND):
                assert (await limiter.admit(make_id(), Quota(), make_id())).local
            await limiter.wait_until_redis_decides(10)
        finally:
            await limiter.aclose()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())
