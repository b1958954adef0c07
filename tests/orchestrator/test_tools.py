"""Tool rounds: what the model asks for is run side by side and fed back; what goes wrong is never fatal."""

import asyncio
import json
from datetime import datetime
from typing import Any

import pytest

from agentchat.contracts import events, frames
from agentchat.contracts.timings import TOOL_SLACK_SECONDS
from agentchat.contracts.tool_messages import ToolRequested
from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.rounds import Call
from agentchat.directory.agent_config import McpServer
from agentchat.orchestrator.run.run_clock import RunClock, add_seconds
from agentchat.orchestrator.tools.offered_tools import MAX_CALLS, build_call_events, make_sendable
from tests.orchestrator.given import World
from tests.orchestrator.scripted import Answer, reply_with, reply_with_calls
from tests.orchestrator.toolbox import NOW, SPECS, Toolbox, list_calls

SHOP: dict[str, Any] = {"mcp_servers": (McpServer(name="shop", url="https://shop.example/mcp"),)}


@pytest.fixture(autouse=True)
def _reset_box(box: Toolbox) -> None:
    box.run = box.echo
    box.requested.clear()
    box.listed.clear()
    box.unavailable = ()


async def test_tools_of_a_reply_run_concurrently(system: World, box: Toolbox) -> None:
    together = asyncio.Barrier(2)

    async def meet(request: ToolRequested) -> str | None:
        await asyncio.wait_for(together.wait(), 20.0)
        return await box.echo(request)

    box.run = meet
    system.will(
        reply_with_calls(("a", "find", '{"q": 1}'), ("b", "order", '{"n": 2}'), text="Let me see. "),
        reply_with("Done."),
    )
    caller = await system.ask(await system.agent(**SHOP))
    completed = await caller.until(frames.Completed)
    assert completed.message.content == caller.text == "Let me see. Done."
    assert completed.message.token_count == 30
    assert completed.tool_calls == 2
    kinds = [type(frame).__name__ for frame in caller.frames]
    assert kinds == [
        "Accepted",
        "DeltaFrame",
        "ToolCalledFrame",
        "ToolCalledFrame",
        "ToolReturnedFrame",
        "ToolReturnedFrame",
        "DeltaFrame",
        "Completed",
    ]
    assert [(called.name, called.input) for called in caller.of(frames.ToolCalledFrame)] == [
        ("find", {"q": 1}),
        ("order", {"n": 2}),
    ]
    assert system.calls[1].messages[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see. "},
                {"type": "tool_use", "id": "a", "name": "find", "input": {"q": 1}},
                {"type": "tool_use", "id": "b", "name": "order", "input": {"n": 2}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": '{"did":"find","with":{"q":1}}'},
                {"type": "tool_result", "tool_use_id": "b", "content": '{"did":"order","with":{"n":2}}'},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (reply_with_calls(("a", "nonsense", "{}")), "Unknown tool nonsense."),
        (
            reply_with_calls(("a", "find", json.dumps({"q": "x" * 70_000}))),
            "The input is longer than 65536 bytes.",
        ),
    ],
)
async def test_a_call_that_cannot_be_run_is_an_error_for_the_model(
    system: World, box: Toolbox, answer: Answer, problem: str
) -> None:
    system.will(answer, reply_with("I see."))
    caller = await system.ask(await system.agent(**SHOP))
    assert (await caller.until(frames.Completed)).message.content == "I see."
    assert box.requested == []
    (returned,) = caller.of(frames.ToolReturnedFrame)
    output = (await system.outputs(caller))["a"]
    assert json.loads(output) == {"error": problem}
    assert returned.is_error is True
    result = system.calls[1].messages[-1]["content"][0]
    assert (result["tool_use_id"], result["is_error"]) == ("a", True)


async def test_the_tools_of_an_agent_version_are_cached(system: World, box: Toolbox) -> None:
    system.will(reply_with("ok"))
    agent = await system.agent(**SHOP)
    for _ in range(3):
        await system.chat(agent)
    assert [question.agent_id for question in box.listed] == [agent]


async def test_call_has_its_servers_time_out(system: World, box: Toolbox) -> None:
    calls, clock = list_calls(system, seconds=600.0, most_seconds=40)
    call = Call(call_id="a", at=clock.now(), name="order", input={})
    await calls.run(1, (call,), {spec.name: spec for spec in SPECS})
    await calls.close()
    (asked,) = box.requested
    assert (asked.timeout_s, asked.deadline) == (40.0, add_seconds(call.at, 40.0 + TOOL_SLACK_SECONDS))


async def test_no_call_is_asked_for_past_the_end_of_its_run(system: World, box: Toolbox) -> None:
    calls, clock = list_calls(system, seconds=5.0)
    call = Call(call_id="a", at=clock.now(), name="find", input={})
    await calls.run(1, (call,), {spec.name: spec for spec in SPECS})
    await calls.close()
    assert _measure_between(clock.now(), box.requested[0].deadline) <= 5.0


async def test_a_worker_that_was_paused_asks_with_the_time_that_has_passed(
    system: World, box: Toolbox
) -> None:
    """Paused for 45 s between the append of the call and its request: no runner starts it any more."""
    calls, clock = list_calls(system)
    recorded_at = clock.after(-45.0)
    call = Call(call_id="a", at=recorded_at, name="order", input={})
    await calls.run(1, (call,), {spec.name: spec for spec in SPECS})
    await box.wait_until_requested(1)
    await calls.close()
    assert _measure_between(recorded_at, box.requested[0].deadline) == 35.0


async def test_next_worker_repeats_only_repeatable_calls(system: World, box: Toolbox) -> None:
    clock = RunClock(NOW)
    began = clock.now()
    asked = tuple(Call(call_id=name, at=began, name=name, input={}) for name in ("find", "order"))
    calls, _ = list_calls(system, *asked, tool_seconds=1.0, slack_seconds=0.0)
    found, order = await calls.run(1, asked, {spec.name: spec for spec in SPECS})
    await calls.close()
    (request,) = box.requested
    assert request.tool == "find"
    assert isinstance(found, events.ToolReturned)
    assert isinstance(order, events.ToolReturned)
    assert found.is_error is False
    assert order.is_error is True
    assert 1.0 <= _measure_between(began, request.deadline) < 5.0


async def test_next_worker_waits_for_lost_call_until_its_deadline(system: World) -> None:
    """35 s after its event no runner begins it, and 2 s later none publishes its result."""
    asked = Call(call_id="a", at=RunClock(NOW).after(-36.5), name="order", input={})
    calls, _ = list_calls(system, asked)
    async with asyncio.timeout(40):
        (order,) = await calls.run(1, (asked,), {spec.name: spec for spec in SPECS})
    await calls.close()
    assert isinstance(order, events.ToolReturned)
    assert "unknown" in order.output


def test_calls_beyond_the_limit_get_an_error() -> None:
    blocks = tuple({"type": "tool_use", "id": f"t{n}", "name": "find", "input": {}} for n in range(100))
    reply = events.ModelReplied(
        trace_id="t", at="", round=1, blocks=blocks, stop_reason="tool_use", usage=Usage()
    )
    done = build_call_events(reply, {spec.name: spec for spec in SPECS}, {})
    assert sum(isinstance(event, events.ToolReturned) for event in done) == 100 - MAX_CALLS


def test_repeated_ids_and_invalid_names_are_repaired() -> None:
    asked = [("a", "find"), ("b", "find"), ("b", "find"), ("", "fi nd!")]
    blocks = make_sendable(
        ({"type": "tool_use", "id": i, "name": name, "input": {}} for i, name in asked), {"a"}
    )
    assert len({block["id"] for block in blocks} | {"a"}) == 5
    assert [block["name"] for block in blocks] == ["find", "find", "find", "fi_nd_"]


def _measure_between(earlier: str, later: str | None) -> float:
    assert later is not None
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # aiohttp's, from 1 MiB on
async def test_live_text_continues_after_a_round_of_large_results(system: World, box: Toolbox) -> None:
    large = json.dumps("x" * (256 * 1024 - 2))

    async def run(request: ToolRequested) -> str | None:
        return large

    box.run = run
    calls = [(f"call-{number}", "find", "{}") for number in range(12)]
    system.will(
        reply_with_calls(*calls, text="Let me see. "),
        reply_with(*(f"piece {number}. " for number in range(20))),
    )
    caller = await system.ask(await system.agent(**SHOP))
    completed = await caller.until(frames.Completed)
    assert completed.message.content == caller.text, "all of it came live"
    assert [frame.seq for frame in caller.frames] == list(range(1, len(caller.frames) + 1))
    assert len(caller.of(frames.ToolReturnedFrame)) == 12
    kept = await system.bus.traces.read_tool_results(caller.request.trace_id)
    assert {(result.recorded, result.output) for result in kept.values()} == {(True, "")}


async def test_call_names_its_conversation_and_context(system: World, box: Toolbox) -> None:
    system.will(reply_with_calls(("c1", "find", "{}")), reply_with("Found."))
    asked = await system.chat(await system.agent(**SHOP), context={"basket": ["SKU-1"]})
    (requested,) = box.requested
    assert requested.meta == {
        "agentchat/conversation_id": asked.request.conversation_id,
        "agentchat/trace_id": asked.request.trace_id,
        "agentchat/context": {"basket": ["SKU-1"]},
        "agentchat/call_id": requested.call_id,
    }
