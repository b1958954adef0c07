"""However a run ends, its slot is free and its tokens are counted before the caller hears of it."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis

from agentchat.contracts import frames
from agentchat.contracts.messages import ChatRequested
from agentchat.contracts.timings import RUN_SECONDS
from agentchat.limits import Limiter
from tests.limits.given import Quota
from tests.orchestrator.given import Listener, World, format_time_ago
from tests.orchestrator.scripted import Answer, break_off, fail_with, is_holding, reply_with, reply_with_calls

ONE_SLOT = Quota(concurrent_runs=1)


async def begin_run(world: World, limiter: Limiter, agent: str) -> Listener:
    """A request that a gateway has admitted."""
    return await admitted(world, limiter, world.request(agent))


async def admitted(world: World, limiter: Limiter, request: ChatRequested) -> Listener:
    listener = await world.listen(request)
    assert (await limiter.admit(world.account_id, ONE_SLOT, request.trace_id)).allowed
    await world.bus.queues.request_chat(request)
    return listener


async def check_settled(world: World, limiter: Limiter, caller: Listener, tokens: int) -> None:
    """The log has the run's tokens, and its slot is another's."""
    assert (await world.run(caller)).usage.total == tokens
    assert (await limiter.admit(world.account_id, ONE_SLOT, "another")).allowed


@pytest.mark.parametrize(
    ("answers", "code", "tokens"),
    [
        ([reply_with("It has shipped.")], None, 15),
        ([break_off(how="overloaded_error"), reply_with("It has shipped.")], None, 11 + 15),
        ([break_off("It " * 100, how="reset"), reply_with("has shipped.")], None, 10 + 75 + 15),
        ([fail_with(401, "authentication_error")], "provider_error", 0),
        ([break_off("It ", how="reset")], "provider_error", 2 * 11),
        (
            [reply_with_calls(("c", "unknown", "{}")), reply_with("No.", stop_reason="refusal")],
            "provider_refused",
            2 * 15,
        ),
    ],
    ids=[
        "reply",
        "retried",
        "went-on-after-much",
        "refused-key",
        "cut",
        "second-round",
    ],
)
async def test_a_reply_or_a_failure_is_settled_with_all_that_its_calls_cost(
    system: World, limiter: Limiter, answers: list[Answer], code: str | None, tokens: int
) -> None:
    world = await system.create_stranger_world()
    system.will(*answers)
    caller = await begin_run(world, limiter, await world.agent("demo-shop-1"))
    await caller.wait_until_ended()
    assert [frame.code for frame in caller.of(frames.Failed)] == ([] if code is None else [code])
    await check_settled(world, limiter, caller, tokens)


async def test_cancelled_run_keeps_text_and_frees_its_slot(system: World, limiter: Limiter) -> None:
    world = await system.create_stranger_world()
    system.will(break_off("It has", how="hang"))
    caller = await begin_run(world, limiter, await world.agent())
    await caller.wait_until_said("It has")
    await world.cancel(caller.request)
    assert (await caller.until(frames.Failed)).code == "cancelled"
    await system.calls[0].wait_until_left()
    ended = await world.run(caller)
    assert (ended.state, ended.text) == ("cancelled", "It has")
    await check_settled(world, limiter, caller, 10 + 2)


async def test_a_run_past_its_deadline_fails_keeps_its_text_and_is_settled(
    system: World, limiter: Limiter
) -> None:
    world = await system.create_stranger_world()
    system.will(break_off("Well, ", how="hang"))
    request = world.request(await world.agent(), requested_at=format_time_ago(RUN_SECONDS - 1.0))
    await world.store_open_run(request)
    caller = await admitted(world, limiter, world.again(request))
    assert (await caller.until(frames.Failed, seconds=3.0)).code == "deadline_exceeded"
    assert (await world.run(caller)).text == "Well, "
    await check_settled(world, limiter, caller, 10 + 2)


async def test_a_run_that_broke_here_is_settled(
    system: World, limiter: Limiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await system.create_stranger_world()

    async def refuse(self: object, done: object) -> None:
        raise RuntimeError("of this test")

    monkeypatch.setattr("agentchat.orchestrator.run.channel.TraceChannel.announce", refuse)
    system.will(reply_with_calls(("c", "unknown", "{}")))
    caller = await begin_run(world, limiter, await world.agent())
    assert (await caller.until(frames.Failed)).code == "internal_error"
    await check_settled(world, limiter, caller, 15)


async def test_a_refused_request_frees_its_slot(system: World, limiter: Limiter) -> None:
    world = await system.create_stranger_world()
    caller = await begin_run(world, limiter, "00000000-0000-7000-8000-000000000000")
    await caller.until(frames.Refused)
    assert (await limiter.admit(world.account_id, ONE_SLOT, "another")).allowed


async def test_a_run_that_began_late_holds_a_slot_from_its_beginning(
    system: World, limiter: Limiter, redis_url: str
) -> None:
    """Its gateway had seen its publication fail, and given the slot back."""
    world = await system.create_stranger_world()
    going = asyncio.Event()
    system.will(is_holding(going, "..."))
    earlier = (datetime.now(UTC) - timedelta(seconds=3)).isoformat().replace("+00:00", "Z")
    request = world.request(await world.agent(), requested_at=earlier)
    caller = await world.listen(request)
    await world.bus.queues.request_chat(request)
    await caller.until(frames.DeltaFrame)
    async with Redis.from_url(redis_url, decode_responses=True) as redis:
        assert await redis.zrange(f"limits:{{{world.account_id}}}:slots", 0, -1) == [request.trace_id]
    going.set()
    await caller.until(frames.Completed)
    await check_settled(world, limiter, caller, 15)
