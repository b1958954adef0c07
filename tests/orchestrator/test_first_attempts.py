"""Runs that begin by one statement, at a worker that knows their agent: nothing that it knows may be old."""

from typing import Any

import msgspec
import pytest

from agentchat.contracts import events, frames
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.leases.waiting_line import WaitingLine
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import acquire_connection
from tests.conversations.given import trace, turn
from tests.orchestrator.given import SECRET, Listener, World, format_time_ago
from tests.orchestrator.scripted import Exchange, reply_with


async def _cache_agent(working: World, agent: str, **more: Any) -> Listener:
    """A run that has ended: the worker knows its agent and its conversation."""
    working.will(reply_with("one"), reply_with("two"))
    return await _wait_for_end(await working.ask(agent, "first", **more))


def _get_key(call: Exchange) -> str:
    return call.headers["authorization"].removeprefix("Bearer ")


async def _wait_for_end(caller: Listener) -> Listener:
    await caller.wait_until_ended()
    return caller


def _without_times(event: events.Event) -> events.Event:
    if isinstance(event, events.ModelReplied):
        event = msgspec.structs.replace(event, first_token_ms=msgspec.UNSET)
    return msgspec.structs.replace(event, at="", trace_id="")


async def test_fast_path_stores_the_same_events(system: World) -> None:
    system.will(reply_with("It ", "has ", "shipped."))
    agent = await system.agent()
    stored, said = [], []
    for _ in range(2):
        caller = await _wait_for_end(await system.ask(agent))
        request = caller.request
        stored.append(
            [
                _without_times(event)
                for event in await system.events(caller)
                if not isinstance(event, events.MessageSaved)
            ]
        )
        said.append([type(frame) for frame in caller.frames])
        async with acquire_connection(system.pool) as conn:
            leases = await conn.execute("SELECT FROM run_leases WHERE trace_id = %s", [request.trace_id])
            assert await leases.fetchall() == []
    assert stored[0] == stored[1]
    assert said[0] == said[1]


async def test_an_agent_that_changed_answers_as_it_is_now(system: World) -> None:
    agent = await system.agent(system_prompt="Be brief.")
    first = await _cache_agent(system, agent)
    await system.change_agent(agent, system_prompt="Be long.", provider_key="another")
    second = await _wait_for_end(await system.go_on(first, "second"))
    assert [call.system for call in system.calls] == ["Be brief.", "Be long."]
    assert [_get_key(call) for call in system.calls] == ["offline", "another"]
    assert (await system.run(second)).agent_version == 2


async def test_resealed_key_is_used(system: World) -> None:
    agent = await system.agent()
    first = await _cache_agent(system, agent)
    sealed = Sealer.from_setting(SECRET).seal("fresh", owner=f"{system.account_id}/{agent}/provider_key")
    async with acquire_connection(system.pool) as conn:
        await conn.execute("UPDATE agent_versions SET provider_key = %s WHERE agent_id = %s", [sealed, agent])
    await _wait_for_end(await system.go_on(first, "second"))
    assert _get_key(system.calls[-1]) == "fresh"


@pytest.mark.parametrize("how", ["disabled", "deleted"])
async def test_an_agent_that_is_gone_is_not_found(system: World, how: str) -> None:
    agent = await system.agent()
    first = await _cache_agent(system, agent)
    if how == "deleted":
        await system.delete_agent(agent)
    else:
        async with acquire_connection(system.pool) as conn:
            await conn.execute("UPDATE agents SET disabled_at = now() WHERE agent_id = %s", [agent])
    second = await system.go_on(first, "second")
    assert (await second.until(frames.Refused)).code == "agent_not_found"
    assert len((await system.conversation(second)).runs) == 1


async def test_queued_requests_come_before_new_ones(system: World) -> None:
    first = await _cache_agent(system, await system.agent())
    line = WaitingLine(system.pool, "another worker")
    waiter = system.request(first.request.agent_id)
    await line.join(first.request.conversation_id, waiter.trace_id, format_time_ago(0), system.account_id)
    second = await system.go_on(first, "second")
    await second.until(frames.Queued)
    await line.leave(waiter.trace_id)
    await second.until(frames.Completed)


async def test_stale_cached_conversation_is_read_again(system: World) -> None:
    first = await _cache_agent(system, await system.agent())
    async with open_store(system.settings.database_url) as other:
        await other.append(await system.conversation(first), turn("others", "Hello?", "Hello!"))
    second = await _wait_for_end(await system.go_on(first, "second"))
    runs = (await system.conversation(second)).runs
    assert [run.trace_id for run in runs] == [
        first.request.trace_id,
        trace("others"),
        second.request.trace_id,
    ]
    texts = [each["content"][0]["text"] for each in system.calls[-1].body["messages"]]
    assert texts[-3:] == ["Hello?", "Hello!", "second"]
