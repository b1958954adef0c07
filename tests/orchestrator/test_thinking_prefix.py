"""Newer Claude models refuse a thinking block after a changed prefix; the model here checks as they do."""

import asyncio
from typing import Any

import msgspec
import pytest

from agentchat.contracts import frames
from agentchat.contracts.tool_messages import ToolRequested
from agentchat.model_demo.errors import DemoApiError
from agentchat.model_demo.thinking_blocks import check_thinking
from agentchat.orchestrator.models import ModelCall
from agentchat.orchestrator.models.anthropic.client import build_body, build_headers
from tests.orchestrator.given import World
from tests.orchestrator.scripted import Answer, Exchange, fail_with, reply_with
from tests.orchestrator.test_compaction import SMALL, reply_filling_window, thread
from tests.orchestrator.test_tools import SHOP
from tests.orchestrator.toolbox import SPECS, Toolbox

THINKING: dict[str, Any] = {"thinking": {"type": "adaptive"}}
TOO_LONG = fail_with(400, "invalid_request_error", "prompt is too long: 1001 tokens > 1000 maximum")


def think(said: str = "", call: str = "", *, breaks: bool = False, tokens: int = 10) -> Answer:
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
            await exchange.tool(call, "find", "{}")
        await exchange.end("tool_use" if call else "end_turn")

    return answer


def count_thinking(call: Exchange) -> int:
    return sum(block["type"] == "thinking" for message in call.messages for block in message["content"])


@pytest.mark.slow
async def test_thinking_before_other_tools_is_left_out(world: World) -> None:
    """The tools changed during a hand-over. First in this file: `working` and `box` would take part."""
    requested = asyncio.Event()
    async with Toolbox(world.bus).open() as box:
        world.will(think(call="a"), think(call="b"), think("Done."))

        async def hold(_: ToolRequested) -> None:
            requested.set()

        box.run = hold
        async with world.worker("first"):
            caller = await world.ask(await world.agent(**SHOP, parameters=THINKING))
            await requested.wait()
        box.specs = tuple(msgspec.structs.replace(spec, description="Changed.") for spec in SPECS)
        box.run = box.echo
        async with world.worker("second"):
            await caller.until(frames.Completed)
    assert [count_thinking(call) for call in world.calls] == [0, 0, 1]


async def test_thinking_of_a_run_goes_back(working: World, box: Toolbox) -> None:
    working.will(think(call="a"), think(call="b"), think("Done."))
    caller = await working.ask(await working.agent(**SHOP, parameters=THINKING))
    assert (await caller.until(frames.Completed)).message.content == "Done."
    assert [count_thinking(call) for call in working.calls] == [0, 1, 2]


async def test_no_summary_is_made_within_a_run(working: World, box: Toolbox) -> None:
    working.will(reply_with("Hi."), think(call="a", tokens=900), think(call="b", tokens=950), think("Done."))
    agent = await working.agent(**SHOP, parameters=THINKING, compaction=SMALL)
    await thread(working, agent, "One", "Two")
    assert [count_thinking(call) for call in working.calls] == [0, 0, 1, 2]


async def test_thinking_before_a_forced_summary_is_left_out(working: World, box: Toolbox) -> None:
    working.will(
        *(reply_with("Hi."), reply_with("Well."), think(call="a"), TOO_LONG),
        *(reply_filling_window(10, "They met."), think(call="b"), think("Done.")),
    )
    agent = await working.agent(**SHOP, parameters=THINKING, compaction=SMALL | {"context_window": 1_000_000})
    await thread(working, agent, "One", "Two", "Three")
    assert [count_thinking(call) for call in working.calls[3:]] == [1, 0, 0, 1]


@pytest.mark.parametrize("model", ["demo", "demo-shop-1"])
async def test_thinking_of_a_continued_reply_is_left_out(working: World, box: Toolbox, model: str) -> None:
    working.will(think("Let me ", breaks=True), think("look.", call="a"), think("Done."))
    caller = await working.ask(await working.agent(model, **SHOP, parameters=THINKING))
    assert (await caller.until(frames.Completed)).message.content == "Let me look.Done."
    assert [count_thinking(call) for call in working.calls] == [0, 0, 0]


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
