"""Replies of a provider, put together from its stream."""

import asyncio
import json
from typing import Any

import pytest

from agentchat.contracts.text_checks import is_line, is_storable
from agentchat.contracts.values import ToolSpec, Usage
from agentchat.net_guard import Guard
from agentchat.orchestrator.models.anthropic.client import AnthropicModel
from tests.orchestrator.provider_caller import Caller, user
from tests.orchestrator.scripted import Exchange, ScriptedProvider, reply_with, reply_with_calls


async def test_the_call_carries_everything_that_the_agent_is(
    provider: ScriptedProvider, caller: Caller
) -> None:
    provider.will(reply_with("ok"))
    tool = ToolSpec(
        name="find", server="s", tool="find", description="Finds.", input_schema={"type": "object"}
    )
    await caller.stream(
        system="Be brief.", parameters={"temperature": 0.5, "max_tokens": 77, "model": "x"}, tools=(tool,)
    )
    (call,) = provider.calls
    assert call.headers["authorization"] == "Bearer sk-test"
    assert call.body | {"system": call.system, "messages": call.messages} == {
        "model": "demo",
        "max_tokens": 77,
        "temperature": 0.5,
        "system": "Be brief.",
        "stream": True,
        "messages": [user("hi")],
        "tools": [{"name": "find", "description": "Finds.", "input_schema": {"type": "object"}}],
    }


async def test_text_goes_out_as_it_arrives_and_the_reply_holds_it_whole(
    provider: ScriptedProvider, caller: Caller
) -> None:
    async def answer(exchange: Exchange) -> None:
        """A piece is sent when the one before it has gone out."""
        await exchange.begin()
        await exchange.block(type="text", text="")
        for count, piece in enumerate(("Grüß ", "Gott, ", "Welt \N{WAVING HAND SIGN}")):
            while len(caller.said) < count:  # noqa: ASYNC110 - a list has no event
                await asyncio.sleep(0.005)
            await exchange.piece(type="text_delta", text=piece)
        await exchange.event("content_block_stop", index=0)
        await exchange.end()

    provider.will(answer)
    async with asyncio.timeout(20):
        reply = await caller.stream()
    assert "".join(caller.said) == "Grüß Gott, Welt \N{WAVING HAND SIGN}"
    assert reply.blocks == ({"type": "text", "text": "Grüß Gott, Welt \N{WAVING HAND SIGN}"},)
    assert reply.stop_reason == "end_turn"


async def test_connections_are_kept_alive_and_reused(provider: ScriptedProvider, caller: Caller) -> None:
    peers = set()

    async def answer(exchange: Exchange) -> None:
        peers.add(exchange._writer.get_extra_info("peername"))
        await reply_with("ok")(exchange)

    provider.will(answer)
    for _ in range(4):
        await caller.stream()
    assert len(peers) == 1


async def test_the_requested_number_of_replies_streams_at_once(provider: ScriptedProvider) -> None:
    calls, open_at_once = 150, asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        if len(provider.calls) == calls:
            open_at_once.set()
        await open_at_once.wait()
        await reply_with("ok")(exchange)

    provider.will(answer)
    client = AnthropicModel(Guard(()))
    async with asyncio.timeout(20):
        replies = await asyncio.gather(*(Caller(client, provider.url).stream() for _ in range(calls)))
    await client.aclose()
    assert {reply.stop_reason for reply in replies} == {"end_turn"}


async def test_usage_is_cumulative_and_counts_the_cache(provider: ScriptedProvider, caller: Caller) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.begin(
            input_tokens=10, output_tokens=1, cache_read_input_tokens=100, cache_creation_input_tokens=7
        )
        await exchange.text("hi")
        await exchange.event("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 3})
        await exchange.end(output_tokens=9)

    provider.will(answer)
    await caller.stream()
    assert caller.meter.usage == Usage(
        input_tokens=10, output_tokens=9, cache_read_tokens=100, cache_creation_tokens=7
    )


async def test_parallel_tool_use_is_put_together(provider: ScriptedProvider, caller: Caller) -> None:
    provider.will(reply_with_calls(("t1", "find", '{"q": "ä"}'), ("t2", "stop", ""), text="Looking."))
    reply = await caller.stream()
    assert reply.blocks == (
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "t1", "name": "find", "input": {"q": "ä"}},
        {"type": "tool_use", "id": "t2", "name": "stop", "input": {}},
    )
    assert reply.bad_inputs == {}


@pytest.mark.parametrize("arguments", ['{"q": ', "[1]", "nonsense", "[" * 100_000])
async def test_an_input_that_is_not_an_object_is_recognized(
    provider: ScriptedProvider, caller: Caller, arguments: str
) -> None:
    provider.will(reply_with_calls(("t1", "find", '{"q": 1}'), ("t2", "find", arguments)))
    reply = await caller.stream()
    assert reply.blocks[1]["input"] == {}
    assert set(reply.bad_inputs) == {1}


@pytest.mark.parametrize("stop_reason", ["max_tokens", "model_context_window_exceeded"])
@pytest.mark.parametrize(
    ("begun_with", "arguments", "whole"),
    [({}, "", False), ({}, '{"q": ', False), ({}, '{"q": 1}', True), ({"q": 1}, "", True)],
)
async def test_a_call_cut_off_by_a_limit_is_not_run(
    provider: ScriptedProvider,
    caller: Caller,
    stop_reason: str,
    begun_with: dict[str, int],
    arguments: str,
    whole: bool,
) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.block(type="tool_use", id="t1", name="delete", input=begun_with)
        await exchange.piece(type="input_json_delta", partial_json=arguments)
        await exchange.end(stop_reason)

    provider.will(answer)
    reply = await caller.stream()
    assert reply.blocks[0]["input"] == ({"q": 1} if whole else {})
    assert ("limit" in reply.bad_inputs.get(0, "")) is not whole


async def test_thinking_goes_back_with_its_signature_and_is_not_said(
    provider: ScriptedProvider, caller: Caller
) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.block(type="thinking", thinking="", signature="")
        await exchange.piece(type="thinking_delta", thinking="Hm, ")
        await exchange.piece(type="thinking_delta", thinking="so.")
        await exchange.piece(type="signature_delta", signature="c2ln")
        await exchange.block(type="redacted_thinking", data="eHh4")
        await exchange.text("Yes.")
        await exchange.end()

    provider.will(answer)
    reply = await caller.stream()
    assert reply.blocks == (
        {"type": "thinking", "thinking": "Hm, so.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "eHh4"},
        {"type": "text", "text": "Yes."},
    )
    assert caller.said == ["Yes."]


async def test_text_that_cannot_be_stored_is_repaired(provider: ScriptedProvider, caller: Caller) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.block(type="text", text="")
        for text in ("a\\ud800b", "c\\u0000d"):
            delta = b'{"type":"text_delta","text":"%b"}' % text.encode()
            await exchange.write(b'data: {"type":"content_block_delta","index":0,"delta":%b}\n\n' % delta)
        await exchange.end()

    provider.will(answer)
    reply = await caller.stream()
    assert reply.blocks == ({"type": "text", "text": "a\ufffdbc\ufffdd"},)
    assert "".join(caller.said) == "a\ufffdbc\ufffdd"


async def test_all_that_a_reply_names_can_be_stored(provider: ScriptedProvider, caller: Caller) -> None:
    bad = "\ud800\x00"

    async def answer(exchange: Exchange) -> None:
        await exchange.open_stream()
        blocks: list[dict[str, Any]] = [
            {"type": "thinking", "thinking": bad, "signature": bad},
            {"type": "redacted_thinking", "data": bad},
            {"type": "tool_use", "id": bad, "name": bad, "input": {bad: bad}},
            {"type": "text", "text": ""},
        ]
        sent: list[dict[str, Any]] = [
            {"type": "message_start", "message": {"id": f"m\n{bad}", "model": bad * 1000}},
            *(
                {"type": "content_block_start", "index": place, "content_block": block}
                for place, block in enumerate(blocks)
            ),
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "signature_delta", "signature": bad},
            },
            {
                "type": "content_block_delta",
                "index": 3,
                "delta": {"type": "input_json_delta", "partial_json": bad},
            },
            {"type": "message_delta", "delta": {"stop_reason": f"stop\x1b{bad}" + "x" * 10_000}},
            {"type": "message_stop"},
        ]
        for each in sent:
            await exchange.write(b"data: %b\n\n" % json.dumps(each).encode())
        await exchange.close()

    provider.will(answer)
    reply = await caller.stream()
    assert is_storable(str(reply.blocks))
    assert "\x00" not in str(reply.blocks)
    assert [block["type"] for block in reply.blocks] == ["thinking", "redacted_thinking", "tool_use"]
    named = (reply.stop_reason, reply.raw_stop_reason, reply.message_id, reply.model)
    assert all(map(is_line, named))
    assert max(map(len, named)) <= 200
