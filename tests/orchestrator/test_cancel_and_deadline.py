"""Runs that are cancelled, pass their deadline, or are only quiet and send heartbeats."""

from collections.abc import AsyncIterator

import pytest

from agentchat.contracts import events, frames
from agentchat.contracts.ids import make_id
from agentchat.contracts.messages import CancelRequested
from agentchat.contracts.values import UnfinishedReply
from agentchat.orchestrator.services import Timings
from tests.orchestrator.given import World
from tests.orchestrator.scripted import break_off, reply_with


@pytest.fixture(scope="module")
async def system(world: World) -> AsyncIterator[World]:
    """With one orchestrator, whose heartbeats come ten times as often."""
    async with world.worker(timings=Timings(alive_seconds=0.5)):
        yield world


async def test_another_accounts_cancellation_does_nothing(system: World) -> None:
    system.will(reply_with("It ", "has ", "shipped."))
    request = system.request(await system.agent())
    caller = await system.listen(request)
    await system.bus.queues.request_chat(request)
    await caller.until(frames.Accepted)
    await system.bus.traces.cancel(CancelRequested(trace_id=request.trace_id, account_id=make_id()))
    await caller.until(frames.Completed)


async def test_a_request_cancelled_before_a_worker_took_it_is_refused(world: World) -> None:
    request = world.request(await world.agent())
    caller = await world.listen(request)
    await world.cancel(request)
    await world.bus.queues.request_chat(request)
    async with world.worker("late"):
        assert (await caller.until(frames.Refused)).code == "cancelled"
    assert await world.events(caller) == []


async def test_text_of_a_cancelled_run_is_an_interrupted_message(system: World) -> None:
    system.will(break_off("It is ", "on", how="hang"), reply_with("Yes."))
    caller = await system.ask(await system.agent())
    await caller.wait_until_said("It is on")
    await system.cancel(caller.request)
    await caller.until(frames.Failed)
    *_, saved, cancelled = await system.events(caller)
    assert isinstance(cancelled, events.RunCancelled)
    assert isinstance(saved, events.MessageSaved)
    assert (saved.content, saved.interrupted) == ("It is on", True)
    call = cancelled.unfinished
    assert isinstance(call, UnfinishedReply)
    assert isinstance(call.first_token_ms, int)
    assert (call.model, call.usage, cancelled.usage) == ("demo", cancelled.usage, call.usage)
    await system.continue_chat(caller, "On its way?")
    assert "It is on" in str(system.calls[1].messages)


async def test_a_quiet_run_sends_heartbeats(system: World) -> None:
    system.will(break_off(how="hang"))
    caller = await system.ask(await system.agent())
    alive = await caller.until(frames.Alive, seconds=3.0)
    assert alive.seq == 2
    await system.cancel(caller.request)
    await caller.until(frames.Failed)
