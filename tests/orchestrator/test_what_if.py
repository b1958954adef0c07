"""What-if replays: recorded runs once more, with tools and sources out of the log and nothing left behind."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from nats.aio.msg import Msg

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import subjects, wire
from agentchat.contracts.replay_messages import AskedTool, WhatIf, WhatIfAnswered
from agentchat.contracts.tool_messages import UnavailableServer
from agentchat.directory.agent_config import McpServer
from tests.orchestrator.given import Listener, World
from tests.orchestrator.scripted import Answer, Exchange, break_off, fail_with, reply_with, reply_with_calls
from tests.orchestrator.toolbox import Toolbox

SHOP = (McpServer(name="shop", url="http://127.0.0.1:1/"),)
_FIND = ("call_a", "find", '{"q": "mugs", "most": 3}')
_ORDER = ("call_b", "order", '{"id": "mug-1"}')


@pytest.fixture
async def tools(system: World) -> AsyncIterator[Toolbox]:
    async with Toolbox(system.bus).open() as toolbox:
        yield toolbox


async def again(world: World, recorded: Listener, **changes: Any) -> WhatIfAnswered:
    """The same run once more, with the version that answered unless `changes` say otherwise."""
    request = recorded.request
    fields: dict[str, Any] = {
        "account_id": world.account_id,
        "agent_id": request.agent_id,
        "agent_version": 1,
        "conversation_id": request.conversation_id,
        "trace_id": request.trace_id,
        "seconds": 20.0,
    }
    return await world.bus.rpc.ask(
        subjects.WHAT_IF, WhatIf(**fields | changes), WhatIfAnswered, timeout=fields["seconds"] + 5
    )


async def record_run(world: World, *answers: Answer, **draft: Any) -> Listener:
    """A run that has ended."""
    world.will(*answers)
    asked = await world.ask(await world.agent(**draft), "Do you have mugs?")
    await asked.wait_until_ended()
    assert (await world.run(asked)).state == "completed"
    return asked


def bodies(world: World) -> list[dict[str, Any]]:
    return [call.body for call in world.calls]


async def test_a_worker_that_stops_gives_its_replays_up(world: World) -> None:
    begun = asyncio.Event()

    async def hang_call(exchange: Exchange) -> None:
        begun.set()
        await exchange.begin()
        await exchange.left.wait()

    async with world.worker("leaving") as stop:
        first = await record_run(world, reply_with("Yes."))
        world.will(hang_call)
        asking = asyncio.create_task(again(world, first))
        await begun.wait()
        stop.set()
        assert (await asking).outcome == "unavailable"
    with pytest.raises(BusUnavailable):
        await again(world, first)


async def test_replay_of_same_version_repeats_the_run(system: World, tools: Toolbox) -> None:
    script = (
        reply_with_calls(_FIND, _ORDER, text="Let me see. "),
        reply_with_calls(_FIND),
        reply_with("Yes,", " three."),
    )
    first = await record_run(system, *script, mcp_servers=SHOP)
    system.will(reply_with("You are welcome."))
    second = await system.go_on(first, "Thanks!")
    await second.wait_until_ended()
    assert (await system.run(second)).state == "completed"
    thanked, stored, done = bodies(system), await system.events(first), len(tools.requested)

    heard: list[Msg] = []
    async with system.connect_nats() as nats:

        async def on_message(message: Msg) -> None:
            heard.append(message)

        await nats.subscribe("chat.>", cb=on_message)
        await nats.flush()
        system.will(*script)
        answer = await again(system, first)
        shown = bodies(system)
        system.will(reply_with("You are welcome."))
        thanks = await again(system, second)
        await nats.flush()

    assert (answer.outcome, answer.content) == ("completed", "Let me see. Yes, three.")
    assert answer.rounds == 3
    run = await system.run(first)
    assert answer.usage == run.usage
    assert [(call.round, call.name, call.input, call.missed) for call in answer.calls] == [
        (each.number, call.name, call.input, False) for each in run.rounds for call in each.calls
    ]
    results = shown[1]["messages"][-1]["content"]
    assert [result["content"] for result in results] == [call.output for call in run.rounds[0].calls]
    assert thanks.content == "You are welcome."
    assert bodies(system) == thanked  # the history before it, and no more
    assert len(shown[0]["messages"]) == 1
    assert await system.events(first) == stored
    assert len(tools.requested) == done
    assert {message.subject for message in heard} <= {subjects.WHAT_IF, subjects.TOOLS_LIST}


async def test_a_call_missing_from_the_log_stops_the_replay(system: World, tools: Toolbox) -> None:
    first = await record_run(system, reply_with_calls(_FIND), reply_with("Yes."), mcp_servers=SHOP)
    done = len(tools.requested)
    same_input = ("call_1", "find", '{"most": 3.0, "q": "mugs"}')
    system.will(reply_with_calls(same_input), reply_with_calls(_FIND), reply_with("No."))
    answer = await again(system, first)
    assert (answer.outcome, answer.code, answer.content) == ("diverged", "diverged", "")
    assert answer.calls == (
        AskedTool(round=1, name="find", input={"most": 3.0, "q": "mugs"}),
        AskedTool(round=2, name="find", input={"q": "mugs", "most": 3}, missed=True),  # held once, used once
    )
    assert len(system.calls) == 2
    assert len(tools.requested) == done


async def test_another_model_and_prompt_take_the_place_of_the_versions(system: World) -> None:
    first = await record_run(system, reply_with("Yes."), system_prompt="Be kind.")
    system.will(reply_with("Aye."))
    answer = await again(system, first, model="other-1", system_prompt="Be a pirate.")
    assert (answer.model, answer.content) == ("other-1", "Aye.")
    (body,) = bodies(system)
    assert body["model"] == "other-1"
    assert body["system"][0]["text"] == "Be a pirate."
    own = await system.ask(first.request.agent_id, prompt="Be mine.")
    await own.wait_until_ended()
    system.will(reply_with("Aye."))
    await again(system, own, system_prompt="Be a pirate.")
    assert bodies(system)[0]["system"][0]["text"] == "Be mine."


async def test_a_version_that_retrieves_has_the_recorded_sources_or_none(system: World) -> None:
    first = await record_run(system, reply_with("Yes."))
    looking = await system.agent(retrieval={"knowledge_base_id": "0192f0c1-0000-7000-8000-0000000000e1"})
    system.will(reply_with("Yes."))
    answer = await again(system, first, agent_id=looking)
    assert (answer.outcome, answer.sources_missed) == ("completed", True)


async def test_what_cannot_be_replayed_is_said(system: World, tools: Toolbox) -> None:
    first = await record_run(system, reply_with("Yes."), mcp_servers=SHOP)
    other = await system.create_stranger_world()
    assert (await again(system, first, trace_id="f" * 32)).outcome == "not_found"
    assert (await again(other, first)).outcome == "not_found"
    unknown = await again(system, first, agent_version=2)
    assert (unknown.outcome, unknown.code) == ("failed", "agent_not_found")
    system.will(fail_with(401, "authentication_error"))
    refused = await again(system, first)
    assert (refused.outcome, refused.code, refused.content) == ("failed", "provider_error", "")
    called = await record_run(system, reply_with_calls(_FIND), reply_with("Yes."), mcp_servers=SHOP)
    system.will(reply_with_calls(_FIND), break_off("Let me", how="hang"))
    late = await again(system, called, seconds=0.7)
    assert (late.outcome, late.code) == ("failed", "deadline_exceeded")
    assert [call.name for call in late.calls] == ["find"]
    assert late.usage.total > 15  # of the reply that hangs too
    system.will(reply_with("Yes."))
    tools.unavailable = (UnavailableServer(server="crm", reason="refused"),)
    lacking = await again(system, first, agent_id=await system.agent(mcp_servers=SHOP))
    assert (lacking.outcome, lacking.code) == ("failed", "overloaded")
    assert system.calls == []


@pytest.mark.parametrize(
    ("one", "other"),
    [({"a": 1.0, "b": [2, {"c": 3}]}, {"b": [2.0, {"c": 3.0}], "a": 1}), ("é", "\u00e9"), (None, None)],
)
def test_equal_inputs_have_one_canonical_form(one: Any, other: Any) -> None:
    assert wire.encode_canonical(one) == wire.encode_canonical(other)
    assert wire.encode_canonical(one) != wire.encode_canonical([other])
