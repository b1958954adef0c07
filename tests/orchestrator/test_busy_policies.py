"""A message while a run is under way, with `on_busy`: it is refused, interrupts the run, or steers it."""

import asyncio
from typing import Any

import pytest

from agentchat.contracts import events, frames
from agentchat.contracts.files import StoredFile
from agentchat.contracts.tool_messages import ToolRequested
from agentchat.conversations.aggregate.approval_rules import INTERRUPTED
from agentchat.directory.agent_config import McpServer
from tests.orchestrator.given import SECONDS, Listener, World
from tests.orchestrator.scripted import is_holding, reply_with, reply_with_calls
from tests.orchestrator.toolbox import Toolbox

SHOP: dict[str, Any] = {"mcp_servers": (McpServer(name="shop", url="https://shop.example/mcp"),)}
FILE = StoredFile(file_id="f", sha256="0" * 64, media_type="image/png", bytes=1, name="a.png")


@pytest.fixture
async def gate(box: Toolbox) -> asyncio.Event:
    """What the tools wait for."""
    opened = asyncio.Event()

    async def wait(request: ToolRequested) -> str | None:
        await asyncio.wait_for(opened.wait(), SECONDS)
        return await box.echo(request)

    box.run = wait
    box.requested.clear()
    return opened


async def _wait_until_received(world: World, first: Listener) -> None:
    async with asyncio.timeout(SECONDS):
        while "MessageReceived" not in _kinds(await world.events(first)):  # noqa: ASYNC110 - logs have no event
            await asyncio.sleep(0.02)


async def _call_a_tool(world: World, box: Toolbox, **draft: Any) -> Listener:
    """A run whose tool does not return before the gate is open; then it says "Done."."""
    world.will(reply_with_calls(("a", "order", "{}"), text="Let me see. "), reply_with("Done."))
    first = await world.ask(await world.agent(**SHOP | draft), "first")
    await box.wait_until_requested(1)
    return first


def _kinds(stored: list[events.Event]) -> list[str]:
    return [type(each).__name__ for each in stored]


async def test_a_refused_message_names_the_run_under_way(system: World) -> None:
    gate = asyncio.Event()
    system.will(is_holding(gate, "...", "one"))
    first = await system.ask(await system.agent(on_busy="refuse"), "first")
    await first.until(frames.DeltaFrame)
    refused = await (await system.go_on(first, "second")).until(frames.Refused)
    assert (refused.code, refused.running_trace_id) == ("conversation_busy", first.request.trace_id)
    gate.set()
    await first.until(frames.Completed)
    assert len((await system.conversation(first)).runs) == 1


async def test_a_message_interrupts_and_follows_in_one_append(
    system: World, box: Toolbox, gate: asyncio.Event
) -> None:
    first = await _call_a_tool(system, box)
    queued = await system.go_on(first, "queued")
    await queued.until(frames.Queued)
    second = await system.go_on(first, "second", on_busy="interrupt")
    ended = await first.until(frames.Failed)
    assert ended.code == "interrupted"
    await second.until(frames.Completed)
    await queued.until(frames.Completed)
    one, two, three = (await system.conversation(first)).runs
    assert [run.user_text for run in (one, two, three)] == ["first", "second", "queued"]
    assert (one.state, one.code, one.reply and one.reply.content) == (
        "cancelled",
        "interrupted",
        "Let me see. ",
    )
    assert INTERRUPTED in (one.rounds[0].calls[0].output or "")
    stored = await system.events(first)
    end = _kinds(stored).index("RunCancelled")
    assert _kinds(stored)[end - 2 : end + 3] == [
        "ToolReturned",
        "MessageSaved",
        "RunCancelled",
        "MessageSaved",
        "RunStarted",
    ]
    gate.set()


async def test_messages_that_interrupt_are_answered_in_order(system: World) -> None:
    gates = [asyncio.Event() for _ in range(2)]
    system.will(*(is_holding(gate, f"reply {n}") for n, gate in enumerate(gates)), reply_with("last"))
    first = await system.ask(await system.agent(on_busy="interrupt"), "first")
    await first.until(frames.DeltaFrame)
    second = await system.go_on(first, "second")
    await second.until(frames.DeltaFrame)
    third = await system.go_on(first, "third")
    assert (await third.until(frames.Completed)).message.content == "last"
    runs = (await system.conversation(first)).runs
    assert [(run.user_text, run.code) for run in runs] == [
        ("first", "interrupted"),
        ("second", "interrupted"),
        ("third", None),
    ]


async def test_a_message_steers_at_the_next_round(system: World, box: Toolbox, gate: asyncio.Event) -> None:
    first = await _call_a_tool(system, box)
    second = await system.go_on(first, "Only today's.", on_busy="steer")
    await _wait_until_received(system, first)
    gate.set()
    steered = await second.until(frames.Steered)
    assert steered.running_trace_id == first.request.trace_id
    await first.until(frames.Completed)
    (run,) = (await system.conversation(first)).runs
    assert [message.content for message in run.rounds[0].joined] == ["Only today's."]
    last = system.calls[-1].body["messages"][-1]
    assert [block["type"] for block in last["content"]] == ["tool_result", "text"]
    again = await system.request_again(second.request)
    assert (await again.until(frames.Steered)).running_trace_id == first.request.trace_id
    assert len((await system.conversation(first)).runs) == 1


async def test_without_another_round_a_message_is_the_next(system: World) -> None:
    gate = asyncio.Event()
    system.will(is_holding(gate, "...", "one"), reply_with("two"), reply_with("three"))
    first = await system.ask(await system.agent(), "first")
    await first.until(frames.DeltaFrame)
    queued = await system.go_on(first, "queued")
    await queued.until(frames.Queued)
    second = await system.go_on(first, "second", on_busy="steer")
    await _wait_until_received(system, first)
    gate.set()
    await asyncio.gather(second.until(frames.Completed), queued.until(frames.Completed))
    runs = (await system.conversation(first)).runs
    assert sorted(run.user_text for run in runs) == ["first", "queued", "second"]
    assert [run.state for run in runs] == ["completed"] * 3


async def test_only_an_interrupt_ends_a_run_that_waits(system: World, box: Toolbox) -> None:
    server = McpServer(name="shop", url="https://shop.example/mcp", require_approval="always")
    system.will(reply_with_calls(("a", "order", "{}"), text="Let me see. "))
    first = await system.ask(await system.agent(mcp_servers=(server,)), "first")
    await first.until(frames.Paused)
    refused = await (await system.go_on(first, "second", on_busy="steer")).until(frames.Refused)
    assert refused.code == "approval_pending"
    system.will(reply_with("Done."))
    third = await system.go_on(first, "third", on_busy="interrupt")
    assert (await third.until(frames.Completed)).message.content == "Done."
    one, _ = (await system.conversation(first)).runs
    assert (one.code, one.rounds[0].calls[0].approvals[0].decided is not None) == ("interrupted", True)


async def test_a_message_with_files_does_not_steer(system: World, box: Toolbox, gate: asyncio.Event) -> None:
    first = await _call_a_tool(system, box)
    second = await system.go_on(first, "second", on_busy="steer", attachments=(FILE,))
    refused = await second.until(frames.Refused)
    assert (refused.code, "attachments" in refused.message) == ("unsupported_attachment", True)
    gate.set()
    await first.until(frames.Completed)
    assert not [each for each in await system.events(first) if isinstance(each, events.MessageReceived)]
