"""Setting title and metadata by command: at any moment of a run, which goes on, and once a command."""

import asyncio
import os
from typing import Any

import pytest

from agentchat.bus.commands import describe_conversation
from agentchat.contracts import events, frames
from agentchat.contracts.ids import make_id
from agentchat.contracts.messages import DescribeConversation
from agentchat.conversations.aggregate.run_ends import cancel
from agentchat.conversations.errors import VersionConflict
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.leases.leases import Leases
from agentchat.orchestrator.run.run_log import RunLog
from agentchat.runtime.postgres import open_pool
from tests.orchestrator.given import Listener, World, format_time_ago
from tests.orchestrator.scripted import is_holding


def command(
    world: World, caller: Listener, trace_id: str | None = None, **fields: Any
) -> DescribeConversation:
    return DescribeConversation(
        trace_id=trace_id or os.urandom(16).hex(),
        account_id=world.account_id,
        conversation_id=caller.request.conversation_id,
        **fields,
    )


async def test_titles_between_the_events_of_a_run_are_kept(system: World) -> None:
    gates = [asyncio.Event() for _ in range(4)]
    system.will(*(is_holding(gate, f"part {number}", ".") for number, gate in enumerate(gates)))
    agent_id = await system.agent()
    first = await system.ask(agent_id)
    callers, given = [first], []
    for number, gate in enumerate(gates):
        await callers[-1].wait_until_said(f"part {number}")

        async def say(word: str, caller: Listener = first) -> DescribeConversation:
            told = command(system, caller, metadata={"last": word})
            assert (await describe_conversation(system.bus.rpc, told)).outcome == "described"
            return told

        saying = [asyncio.create_task(say(f"{number}-{each}")) for each in range(10)]
        gate.set()
        if number < len(gates) - 1:
            callers.append(await system.go_on(first, "And?"))
        given += await asyncio.gather(*saying)
    for caller in callers:
        await caller.until(frames.Completed)
        assert len(caller.of(frames.Accepted)) == 1
        assert not caller.of(frames.Resumed)
    found = await system.conversation(first)
    assert sorted(trace_id for trace_id, _ in found.described) == sorted(each.trace_id for each in given)
    assert [run.state for run in found.runs] == ["completed"] * 4
    assert {run.attempt for run in found.runs} == {1}


async def test_a_worker_whose_run_is_taken_over_stops(world: World) -> None:
    """A description at the version that it expects makes it look; what it finds is another's attempt."""
    request = world.request(await world.agent())
    begun = await world.store_open_run(request)
    run = begun.run(request.trace_id)
    assert run is not None
    attempt = events.RunStarted(
        trace_id=request.trace_id, at=format_time_ago(0), attempt=2, agent_version=1, model="m", form="form1"
    )
    described = events.ConversationDescribed(trace_id=make_id(), at=format_time_ago(0), title="One")
    async with (
        open_store(world.settings.database_url) as store,
        open_store(world.settings.database_url) as other,
        open_pool(world.settings.database_url) as pool,
    ):
        leases = Leases(pool, "first")
        lease = await leases.acquire(request.trace_id)
        assert lease is not None
        log = RunLog(store, leases, begun, request.trace_id, lease)
        after = await other.append(begun, [described])
        await log.append(
            [events.Delta(trace_id=request.trace_id, at=format_time_ago(0), round=1, text="Hi", cuts=(2,))]
        )
        assert log.conversation.version == after.version + 1
        taken_over = await other.append(await other.load(request.conversation_id), [attempt])
        await other.append(taken_over, [described])
        with pytest.raises(VersionConflict):
            await log.append(cancel(log.run, format_time_ago(0)))
        assert (await other.load(request.conversation_id)).version == taken_over.version + 1
