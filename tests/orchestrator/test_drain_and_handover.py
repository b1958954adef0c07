"""Workers that shut down, freeze or are full: their runs and waiting messages go on elsewhere, once."""

import asyncio
import signal

import pytest

from agentchat.contracts import events, frames
from agentchat.contracts.tool_messages import ToolRequested, UnavailableServer
from agentchat.orchestrator.services import Timings
from tests.orchestrator.given import World
from tests.orchestrator.process import orchestrator
from tests.orchestrator.scripted import break_off, is_holding, reply_with, reply_with_calls
from tests.orchestrator.test_tools import SHOP
from tests.orchestrator.toolbox import Toolbox


@pytest.mark.slow
async def test_shutdown_hands_runs_over_at_once(world: World) -> None:
    world.will(break_off("It ", "has ", how="hang"), reply_with("shipped."))
    async with orchestrator(world.settings, "old") as old:
        caller = await world.ask(await world.agent("demo-shop-1"))
        await caller.wait_until_said("It has ")
        async with world.worker("new"):
            old.send(signal.SIGTERM)
            assert await old.wait_until_ended() == 0
            completed = await caller.until(frames.Completed, seconds=8.0)  # before its lease could expire
    assert completed.message.content == caller.text == "It has shipped."
    lost = [event for event in await world.events(caller) if isinstance(event, events.ReplyLost)]
    assert [event.usage.total for event in lost] == [10 + 2]
    assert (await world.run(caller)).usage.total == completed.message.token_count == 10 + 2 + 15


async def test_run_cancelled_between_workers_keeps_its_text(world: World) -> None:
    world.will(break_off("It has", how="hang"), reply_with(" never shipped."))
    async with world.worker("old", timings=Timings(drain_seconds=0.2)):
        caller = await world.ask(await world.agent())
        await caller.wait_until_said("It has")
    await world.cancel(caller.request)
    async with world.worker("next"):
        assert (await caller.until(frames.Failed)).code == "cancelled"
    ended = await world.run(caller)
    assert (ended.state, ended.text, ended.attempt) == ("cancelled", "It has", 2)
    assert len(world.calls) == 1


@pytest.mark.parametrize("policy", ["continue", "fail"])
async def test_run_goes_on_elsewhere_without_its_tool_server(world: World, policy: str) -> None:
    """The server was there when the run began, and the run's call has its result."""
    requested = asyncio.Event()

    async def hold(_: ToolRequested) -> None:
        requested.set()

    world.will(reply_with_calls(("a", "order", "{}")), reply_with("Done."))
    async with Toolbox(world.bus).open() as box:
        box.run = hold
        async with world.worker("old", timings=Timings(drain_seconds=0.1)):
            caller = await world.ask(await world.agent(**SHOP, on_tool_server_error=policy))
            await requested.wait()
        box.specs, box.unavailable = (), (UnavailableServer(server="shop", reason="It is down."),)
        await box.finish(box.requested[0], '{"ordered": 1}')
        async with world.worker("next"):
            assert (await caller.until(frames.Completed)).message.content == "Done."
    assert "ordered" in str(world.calls[1].messages)


async def test_waiters_hold_no_run_slot(world: World) -> None:
    gate = asyncio.Event()
    world.will(is_holding(gate, "...", "one"), reply_with("reply"))
    async with world.worker("small", run_slots=2):
        first = await world.ask(await world.agent(), "first")
        await first.until(frames.DeltaFrame)
        waiters = [await world.go_on(first, f"waiter {number}") for number in range(5)]
        for waiter in waiters:
            await waiter.until(frames.Queued)
        await world.chat(await world.agent(), "elsewhere")
        gate.set()
        for waiter in waiters:
            await waiter.until(frames.Completed)


async def test_waiting_request_keeps_its_place_when_worker_stops(
    world: World,
) -> None:
    """Both workers are filled up, so that it is known where each message waits."""
    gate, room = asyncio.Event(), asyncio.Event()
    world.will(
        is_holding(gate, "...", "one"),
        is_holding(gate, "...", "filler"),
        is_holding(room, "...", "filler"),
        reply_with("reply"),
    )
    agent = await world.agent()
    async with world.worker("old", run_slots=2) as stop_old:
        first = await world.ask(agent, "first")
        await first.until(frames.DeltaFrame)
        second = await world.go_on(first, "second")
        await second.until(frames.Queued)
        await (await world.ask(agent, "fills the old one")).until(frames.DeltaFrame)
        async with world.worker("next", run_slots=1):
            third = await world.go_on(first, "third")
            await third.until(frames.Queued)
            await (await world.ask(agent, "fills the next one")).until(frames.DeltaFrame)
            stop_old.set()
            gate.set()
            await first.until(frames.Completed)
            with pytest.raises(TimeoutError):
                await third.until(frames.Accepted, seconds=1.0)  # long enough to overtake
            room.set()
            for waiter in (second, third):
                await waiter.until(frames.Completed)
    runs = (await world.conversation(first)).runs
    assert [run.user_text for run in runs] == ["first", "second", "third"]
