"""Runs that a worker finds half done in the log, and outages of what it stands on."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from agentchat.contracts import events, frames, subjects, wire
from agentchat.contracts.messages import ChatRequested
from agentchat.contracts.values import Usage
from agentchat.conversations.event_store.conversation_store import ConversationStore, open_store
from agentchat.orchestrator.services import Timings
from tests.orchestrator.given import SECONDS, World
from tests.orchestrator.scripted import break_off, reply_with, reply_with_calls
from tests.orchestrator.test_tools import SHOP
from tests.orchestrator.toolbox import Toolbox
from tests.support.proxy import run_proxy


@pytest.fixture(scope="module")
async def store(world: World) -> AsyncIterator[ConversationStore]:
    async with open_store(world.settings.database_url) as opened:
        yield opened


async def test_calls_that_were_recorded_and_not_announced_are_announced(world: World) -> None:
    world.will(reply_with("Done."))
    request = world.request(await world.agent("demo-shop-1", **SHOP))
    stamp: dict[str, Any] = {"trace_id": request.trace_id, "at": request.requested_at, "round": 1}
    names = {"a": "find", "b": "order"}
    blocks = tuple(
        {"type": "tool_use", "id": call_id, "name": name, "input": {}} for call_id, name in names.items()
    )
    await world.store_open_run(
        request,
        events.Delta(text="Let me see. ", cuts=(12,), **stamp),
        events.ModelReplied(blocks=blocks, stop_reason="tool_use", usage=Usage(input_tokens=1), **stamp),
        *(
            events.ToolCalled(call_id=call_id, name=name, input={}, **stamp)
            for call_id, name in names.items()
        ),
    )
    timings = Timings(tool_seconds=1.5, tool_slack_seconds=0.2)  # the first call is answered in time
    async with Toolbox(world.bus).open() as box, world.worker(timings=timings):
        caller = await world.request_again(request)
        completed = await caller.until(frames.Completed)
        assert [asked.call_id for asked in box.requested] == ["a"]
    kinds = [type(frame).__name__ for frame in caller.frames if not isinstance(frame, frames.Alive)]
    returned = ["ToolReturnedFrame", "ToolReturnedFrame"]
    assert kinds == ["Resumed", "ToolCalledFrame", "ToolCalledFrame", *returned, "DeltaFrame", "Completed"]
    assert [frame.is_error for frame in caller.of(frames.ToolReturnedFrame)] == [False, True]
    assert completed.message.content == "Let me see. Done."


async def test_exhausted_request_fails_its_run(world: World, store: ConversationStore) -> None:
    request = world.request(await world.agent())
    await world.store_open_run(request)
    caller = await world.listen(request)
    await _exhaust_deliveries(world, request)
    async with world.worker():
        await _wait_until_handled(world)
    assert (await caller.until(frames.Failed)).code == "internal_error"
    assert (await world.run(caller)).state == "failed"
    assert wire.encode(request).decode() in [
        message.payload for message in await world.read_dead_letters("REQUESTS")
    ]


async def test_handed_over_run_is_left_to_the_sweeper(world: World, store: ConversationStore) -> None:
    world.will(reply_with("It has shipped."))
    request = world.request(await world.agent("demo-shop-1"))
    conversation = await world.store_open_run(request)
    stamp: dict[str, Any] = {"trace_id": request.trace_id, "at": request.requested_at}
    for attempt in range(2, 8):
        handed_over = events.ReplyLost(round=0, usage=Usage(), **stamp)
        again = events.RunStarted(attempt=attempt, agent_version=1, model="demo-shop-1", form="json", **stamp)
        conversation = await store.append(conversation, [handed_over, again])
    await _exhaust_deliveries(world, request)
    async with world.worker():
        await _wait_until_handled(world)
        caller = await world.request_again(request)
        completed = await caller.until(frames.Completed)
    assert completed.message.content == "It has shipped."


async def _exhaust_deliveries(world: World, request: ChatRequested) -> None:
    """Have said of the request what nats-server says at a message's last delivery."""
    async with world.connect_nats() as nats:
        jetstream = nats.jetstream()
        stored = await jetstream.publish(subjects.format_requests(request.account_id), wire.encode(request))
        queue = await jetstream.pull_subscribe_bind("orchestrator", "REQUESTS")
        await queue.fetch(1, timeout=5)  # in somebody's hands, so that only the advisory tells of it
        advisory = {"stream": "REQUESTS", "stream_seq": stored.seq, "deliveries": 50}
        await jetstream.publish(
            "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.REQUESTS.orchestrator", msgspec.json.encode(advisory)
        )


async def _wait_until_handled(world: World) -> None:
    async with world.connect_nats() as nats, asyncio.timeout(SECONDS):
        while (await nats.jetstream().stream_info("REQUESTS")).state.messages:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_an_agent_whose_tools_cannot_be_listed_fails_with_the_reason(world: World) -> None:
    world.will(reply_with("never"))
    async with world.worker(timings=Timings(tools_listed_seconds=0.8)):
        caller = await world.ask(await world.agent(**SHOP))
        assert (await caller.until(frames.Failed)).code == "overloaded"
    assert world.calls == []


async def test_a_tool_runner_that_starts_late_is_waited_for(world: World) -> None:
    world.will(reply_with_calls(("a", "find", "{}")), reply_with("Found."))
    async with world.worker():
        caller = await world.ask(await world.agent(**SHOP))
        await caller.until(frames.Accepted)
        await asyncio.sleep(0.7)  # until it has asked in vain, of which there is no sign
        async with Toolbox(world.bus).open():
            await caller.until(frames.Completed)


async def test_cancellation_without_nats_takes_effect_later(world: World) -> None:
    world.will(break_off("It has", how="hang"))
    agent = await world.agent()
    async with run_proxy(world.settings.nats_url) as (link, url), world.worker(nats_url=url):
        caller = await world.ask(agent)
        await caller.wait_until_said("It has")
        await link.set_mode("hold")
        await world.cancel(caller.request)
        await link.set_mode("pass")
        assert (await caller.until(frames.Failed)).code == "cancelled"


async def test_a_run_needs_no_redis(world: World) -> None:
    world.will(reply_with_calls(("a", "find", "{}")), reply_with("Fine."))
    async with Toolbox(world.bus).open(), world.worker(redis_url="redis://127.0.0.1:1/0"):
        await world.chat(await world.agent(**SHOP))
