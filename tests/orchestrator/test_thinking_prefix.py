"""Newer Claude models refuse a thinking block after a changed prefix; the model here checks as they do."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from agentchat.administration import admin_knowledge
from agentchat.administration.admin_values import NewKnowledgeBase
from agentchat.bus.commands import decide_approval
from agentchat.contracts import events, frames
from agentchat.contracts.tool_messages import ToolRequested, UnavailableServer
from agentchat.directory.agent_config import Retrieval
from agentchat.model_demo.errors import DemoApiError
from agentchat.model_demo.thinking_blocks import check_thinking
from agentchat.orchestrator.models import ModelCall
from agentchat.orchestrator.models.anthropic.client import build_body, build_headers
from agentchat.orchestrator.services import Timings
from agentchat.runtime.postgres import open_pool
from tests.administrator import administrator
from tests.knowledge.shelf import Shelf
from tests.orchestrator.given import World
from tests.orchestrator.scripted import Answer, Exchange, fail_with, reply_with, reply_with_calls
from tests.orchestrator.test_approvals import decision
from tests.orchestrator.test_compaction import SMALL, reply_filling_window, thread
from tests.orchestrator.test_missing_tool_servers import SERVERS
from tests.orchestrator.test_tools import SHOP
from tests.orchestrator.toolbox import SPECS, Toolbox

THINKING: dict[str, Any] = {"thinking": {"type": "adaptive"}}
TOO_LONG = fail_with(400, "invalid_request_error", "prompt is too long: 1001 tokens > 1000 maximum")
CHANGED = tuple(msgspec.structs.replace(spec, description="Changed.") for spec in SPECS)


def think(
    said: str = "", call: str = "", *, tool: str = "find", breaks: bool = False, tokens: int = 10
) -> Answer:
    """A reply that begins with a thinking block, if the blocks that came back are valid; else status 400."""

    async def answer(exchange: Exchange) -> None:
        try:
            prefix = check_thinking(exchange.body, exchange.headers)
        except DemoApiError as error:
            await exchange.status(400, "invalid_request_error", str(error))
            return
        await exchange.begin(input_tokens=tokens, output_tokens=1)
        thought = f"Thought {len(exchange.messages)}."
        await exchange.block(type="thinking", thinking="", signature="")
        await exchange.piece(type="thinking_delta", thinking=thought)
        await exchange.piece(type="signature_delta", signature=prefix.sign(thought))
        if said:
            await exchange.text(said)
        if breaks:
            await exchange.close()
            return
        if call:
            await exchange.tool(call, tool, "{}")
        await exchange.end("tool_use" if call else "end_turn")

    return answer


@pytest.fixture
def box(box: Toolbox) -> Iterator[Toolbox]:
    box.requested.clear()
    box.listed.clear()
    yield box
    box.specs = SPECS


def count_thinking(call: Exchange) -> int:
    return sum(block["type"] == "thinking" for message in call.messages for block in message["content"])


async def test_takeover_repeats_tools_documents_and_notes(world: World) -> None:
    """All of them changed during a hand-over. First in this file: `working` and `box` would take part."""
    requested = asyncio.Event()
    async with Toolbox(world.bus).open() as box, open_pool(world.settings.database_url, role=None) as pool:
        base = await admin_knowledge.create(
            administrator(pool), NewKnowledgeBase(account_id=world.account_id, name="Help")
        )
        shelf = Shelf(pool, world.account_id, base.id)
        await shelf.put("hello.txt", "Say hello to visitors.")
        world.will(think(call="a"), think(call="b"), think("Done."))

        async def hold(_: ToolRequested) -> None:
            requested.set()

        box.run = hold
        box.unavailable = (UnavailableServer(server="mail", reason="It is down."),)
        async with world.worker("first", timings=Timings(drain_seconds=0.1)):
            looks = Retrieval(knowledge_base_id=base.id)
            caller = await world.ask(
                await world.agent(mcp_servers=SERVERS, parameters=THINKING, retrieval=looks)
            )
            await requested.wait()
        box.specs, box.unavailable = CHANGED, ()
        await admin_knowledge.delete(administrator(pool), base.id, force=True)
        box.run = box.echo
        await box.finish(box.requested[0], '{"held": 1}')
        async with world.worker("second"):
            await caller.until(frames.Completed)
    assert [count_thinking(call) for call in world.calls] == [0, 1, 2]
    assert all("Say hello to visitors." in str(call.messages) for call in world.calls)


async def test_approval_in_between_repeats_the_tools(world: World) -> None:
    world.will(think(call="a"), reply_with("Ready."), think("Done."))
    shop = msgspec.structs.replace(SHOP["mcp_servers"][0], require_approval="always")
    async with Toolbox(world.bus).open() as box:
        async with world.worker("first", timings=Timings(drain_seconds=0.1)):
            caller = await world.ask(await world.agent(mcp_servers=(shop,), parameters=THINKING))
            await caller.until(frames.Paused)
        box.specs = CHANGED
        async with world.worker("second"):
            await world.chat(await world.agent())
            await decide_approval(world.bus.rpc, await decision(world, caller))
            await caller.until(frames.Completed)
    assert [count_thinking(call) for call in world.calls] == [0, 0, 1]


async def test_list_of_tools_is_recorded_once_in_a_thread(system: World, box: Toolbox) -> None:
    system.will(think(call="a"), think("Done."), think(call="b"), think("Done."), think("No tool."))
    first = await system.chat(await system.agent(**SHOP, parameters=THINKING))
    for question in ("Again", "And now?"):
        await system.continue_chat(first, question)
    replies = [event for event in await system.events(first) if isinstance(event, events.ModelReplied)]
    assert [reply.offered_tools for reply in replies] == [SPECS, None, None, None, None]


async def test_list_of_tools_is_not_recorded_without_thinking(system: World, box: Toolbox) -> None:
    system.will(reply_with_calls(("a", "find", "{}")), reply_with("Done."))
    first = await system.chat(await system.agent(**SHOP))
    replies = [event for event in await system.events(first) if isinstance(event, events.ModelReplied)]
    assert [reply.offered_tools for reply in replies] == [None, None]


async def test_list_of_tools_is_recorded_if_a_call_waits(system: World, box: Toolbox) -> None:
    """Approvers see the tool as the model was offered it."""
    system.will(reply_with_calls(("a", "find", "{}")))
    shop = msgspec.structs.replace(SHOP["mcp_servers"][0], require_approval="always")
    caller = await system.ask(await system.agent(mcp_servers=(shop,)))
    await caller.until(frames.Paused)
    replies = [event for event in await system.events(caller) if isinstance(event, events.ModelReplied)]
    assert [reply.offered_tools for reply in replies] == [SPECS]


async def test_tool_that_was_just_added_is_found(system: World, box: Toolbox) -> None:
    """Its list differs, so the thinking before it is left out; two unknown names ask the servers once."""
    system.will(reply_with("Hi."), think(call="a", tool="new"), think(call="b", tool="none"), think("Done."))
    first = await system.chat(await system.agent(**SHOP, parameters=THINKING))
    new = msgspec.structs.replace(SPECS[0], name="new", tool="new")
    box.specs = (*SPECS, new)
    await system.continue_chat(first, "Use the new one.")
    assert [question.fresh for question in box.listed] == [False, True]
    assert [request.tool for request in box.requested] == ["new"]
    assert [len(call.body["tools"]) for call in system.calls] == [2, 2, 3, 3]
    assert [count_thinking(call) for call in system.calls] == [0, 0, 0, 1]


async def test_thinking_of_a_run_goes_back(system: World, box: Toolbox) -> None:
    system.will(think(call="a"), think(call="b"), think("Done."))
    caller = await system.ask(await system.agent(**SHOP, parameters=THINKING))
    assert (await caller.until(frames.Completed)).message.content == "Done."
    assert [count_thinking(call) for call in system.calls] == [0, 1, 2]


async def test_no_summary_is_made_within_a_run(system: World, box: Toolbox) -> None:
    system.will(reply_with("Hi."), think(call="a", tokens=900), think(call="b", tokens=950), think("Done."))
    agent = await system.agent(**SHOP, parameters=THINKING, compaction=SMALL)
    await thread(system, agent, "One", "Two")
    assert [count_thinking(call) for call in system.calls] == [0, 0, 1, 2]


async def test_thinking_before_a_forced_summary_is_left_out(system: World, box: Toolbox) -> None:
    system.will(
        *(reply_with("Hi."), reply_with("Well."), think(call="a"), TOO_LONG),
        *(reply_filling_window(10, "They met."), think(call="b"), think("Done.")),
    )
    agent = await system.agent(**SHOP, parameters=THINKING, compaction=SMALL | {"context_window": 1_000_000})
    await thread(system, agent, "One", "Two", "Three")
    assert [count_thinking(call) for call in system.calls[3:]] == [1, 0, 0, 1]


@pytest.mark.parametrize("model", ["demo", "demo-shop-1"])
async def test_thinking_of_a_continued_reply_is_left_out(system: World, box: Toolbox, model: str) -> None:
    system.will(think("Let me ", breaks=True), think("look.", call="a"), think("Done."))
    caller = await system.ask(await system.agent(model, **SHOP, parameters=THINKING))
    assert (await caller.until(frames.Completed)).message.content == "Let me look.Done."
    assert [count_thinking(call) for call in system.calls] == [0, 0, 0]


def test_older_models_get_all_thinking_and_anthropic_is_asked_to_drop() -> None:
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "s"}]}
    call = ModelCall(model="m", system="", messages=[thought], parameters=THINKING)
    assert build_body(call, drops_blocks=True)["thinking"] == {
        "type": "adaptive",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    }
    assert build_headers(call, drops_blocks=True)["anthropic-beta"] == "thinking-binding-controls-2026-08-01"
    assert build_body(call)["thinking"] == {"type": "adaptive"}
    assert "anthropic-beta" not in build_headers(call)
    without = ModelCall(model="m", system="", messages=[], parameters=THINKING)
    assert "anthropic-beta" not in build_headers(without, drops_blocks=True)
    disabled = msgspec.structs.replace(call, parameters={"thinking": {"type": "disabled"}})
    assert build_body(disabled, drops_blocks=True)["thinking"] == {"type": "disabled"}
