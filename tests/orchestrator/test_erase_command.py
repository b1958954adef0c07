"""Erasing a conversation by command: whatever is under way in it ends, and nothing of it comes back."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from agentchat.bus.commands import erase_conversation
from agentchat.contracts import events, frames
from agentchat.contracts.ids import make_id, make_unlisted_id
from agentchat.contracts.messages import CancelRequested
from agentchat.contracts.values import AgentFacts
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.aggregate.opening_rules import StartRun, decide_opening
from agentchat.conversations.aggregate.run_ends import fail
from agentchat.conversations.errors import VersionConflict
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.leases.leases import Leases
from agentchat.orchestrator.services import Timings
from agentchat.runtime.postgres import open_pool
from tests.conversations.read_models import follow
from tests.orchestrator.given import Listener, World
from tests.orchestrator.scripted import break_off, reply_with


@pytest.fixture(scope="module")
async def system(world: World) -> AsyncIterator[World]:
    """With one orchestrator, which waits a little less for the worker of an erased run."""
    async with world.worker(timings=Timings(erase_cancel_seconds=1.5)):
        yield world


async def erase(
    world: World, caller: Listener, trace_id: str | None = None, idle_since: str | None = None
) -> bool:
    return await erase_conversation(
        world.bus.rpc,
        world.account_id,
        caller.request.conversation_id,
        trace_id=trace_id or os.urandom(16).hex(),
        idle_since=idle_since,
    )


async def ends(world: World, caller: Listener) -> list[tuple[str, int]]:
    """How the caller's run ended, and what it read, as the ledger of runs gets it."""
    entries = await world.log.read(0, 10_000)
    return [
        (each.topic, each.event.usage.input_tokens)
        for each in entries
        if isinstance(each.event, events.RunEnd) and each.event.trace_id == caller.request.trace_id
    ]


async def left(world: World, caller: Listener) -> events.ConversationErased:
    (event,) = await world.events(caller)
    assert isinstance(event, events.ConversationErased)
    return event


async def test_what_is_left_says_when_and_by_which_request(system: World) -> None:
    system.will(reply_with("shipped."))
    caller = await system.chat(await system.agent())
    trace_id = os.urandom(16).hex()
    assert await erase(system, caller, trace_id)
    event = await left(system, caller)
    assert (event.trace_id, event.account_id) == (trace_id, system.account_id)


async def test_only_the_repeated_command_finds_it_erased(system: World) -> None:
    system.will(reply_with("shipped."))
    caller = await system.chat(await system.agent())
    trace_id = os.urandom(16).hex()
    assert not await erase(await system.create_stranger_world(), caller)
    assert await erase(system, caller, trace_id)
    assert await erase(system, caller, trace_id)
    assert not await erase(system, caller)
    assert not await erase_conversation(system.bus.rpc, system.account_id, make_id(), trace_id=trace_id)
    later = await system.go_on(caller, "and now?")
    assert (await later.until(frames.Refused)).code == "conversation_not_found"
    again = await system.ask(
        caller.request.agent_id, conversation_id=caller.request.conversation_id, new_conversation=True
    )
    assert (await again.until(frames.Refused)).code == "conversation_not_found"
    await left(system, caller)


async def test_erasure_cancels_the_run_and_refuses_waiting_requests(system: World) -> None:
    system.will(break_off("It has", how="hang"), reply_with("never"))
    first = await system.ask(await system.agent())
    await first.wait_until_said("It has")
    waiters = [await system.go_on(first, f"message {number}") for number in range(3)]
    await asyncio.gather(*(each.until(frames.Queued) for each in waiters))
    assert await erase(system, first)
    assert (await first.until(frames.Failed)).code == "cancelled"
    refusals = await asyncio.gather(*(each.until(frames.Refused) for each in waiters))
    assert {(each.code, each.message) for each in refusals} == {
        ("conversation_not_found", "No such conversation.")
    }
    await system.calls[0].wait_until_left()
    assert len(system.calls) == 1
    assert await ends(system, first) == [("run_cancelled.v1", 10)]


async def test_a_run_whose_worker_does_not_listen_ends_with_the_erasure(system: World) -> None:
    caller = await system.listen(system.request(await system.agent(), "secret"))
    request = caller.request
    begin = decide_opening(
        Conversation(conversation_id=request.conversation_id),
        request,
        AgentFacts(agent_version=1, model="m"),
        now=request.requested_at,
        expired=False,
    )
    assert isinstance(begin, StartRun)
    async with (
        open_store(system.settings.database_url) as store,
        open_pool(system.settings.database_url) as pool,
    ):
        begun = await store.append(Conversation(conversation_id=request.conversation_id), begin.events)
        await Leases(pool, "frozen").acquire(request.trace_id)
        assert await erase(system, caller)
        assert (await caller.until(frames.Failed)).code == "cancelled"
        run = begun.run(request.trace_id)
        assert run is not None
        with pytest.raises(VersionConflict):
            await store.append(begun, fail(run, "internal_error", "too late", request.requested_at))
    assert await ends(system, caller) == [("run_cancelled.v1", 0)]


async def test_a_run_that_begins_all_the_same_is_cancelled_too(system: World) -> None:
    """Messages come in while it is erased: each is answered before, cancelled, or finds nothing."""
    system.will(reply_with("shipped."))
    agent_id = await system.agent()
    first = await system.chat(agent_id)
    erasing = asyncio.create_task(erase(system, first))
    callers = [await system.go_on(first, f"message {number}") for number in range(6)]
    assert await erasing
    await asyncio.gather(*(each.wait_until_ended() for each in callers))
    for each in callers:
        last = each.frames[-1]
        match last:
            case frames.Completed():
                continue
            case frames.Failed() | frames.Refused():
                assert last.code in ("cancelled", "conversation_not_found")
            case _:
                raise AssertionError(last)
    await left(system, first)


async def test_a_conversation_in_use_since_then_is_kept(system: World) -> None:
    system.will(reply_with("shipped."), break_off("It has", how="hang"))
    first = await system.chat(await system.agent())
    assert not await erase(system, first, idle_since="2026-01-01T00:00:00.000000Z")
    second = await system.go_on(first, "and now?")
    await second.wait_until_said("It has")
    assert not await erase(system, first, idle_since="2126-01-01T00:00:00.000000Z")
    await system.bus.traces.cancel(
        CancelRequested(trace_id=second.request.trace_id, account_id=system.account_id)
    )
    await second.until(frames.Failed)
    assert await erase(system, first, idle_since="2126-01-01T00:00:00.000000Z")


async def test_only_old_unlisted_conversations_are_removed(world: World) -> None:
    world.will(reply_with("One."), reply_with("Two."), reply_with("Three."))
    async with world.worker():
        agent = await world.agent()
        unlisted = await world.chat(agent, conversation_id=make_unlisted_id())
        listed = await world.chat(agent)
        await world.continue_chat(unlisted, "and now?")
        kept = await world.events(listed)
        assert len(await world.events(unlisted)) > 6, "kept for a day"
    async with open_pool(world.settings.database_url) as pool:
        await follow(pool, world.log)
    async with world.worker(unlisted_hours=0.5 / 3600):
        async with asyncio.timeout(20):
            while len(await world.events(unlisted)) > 1:  # noqa: ASYNC110 - another process removes it
                await asyncio.sleep(0.05)
    await left(world, unlisted)
    assert await world.events(listed) == kept
