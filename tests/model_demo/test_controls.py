"""Slow and repeating: the pace and the texts that a model name may ask for."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import anthropic
import httpx
import openai
import pytest

from tests.model_demo.messages import GET_ORDER, Ask, Events, get_text, list_calls


async def list_deltas(events: AsyncIterator[tuple[str, dict[str, Any]]]) -> list[str]:
    return [data["delta"]["text"] async for name, data in events if name == "content_block_delta"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("demo-load?delta=1", "`delta`"),
        ("demo-load?deltas=many", "$.deltas"),
        ("demo-load?delay_ms=-1", "$.delay_ms"),
        ("demo-load?deltas", "key=value"),
        ("demo-echo?fail=418", "fail must be one of 400, 401"),
        ("demo-echo?fail_after=1", "needs fail=<status>"),
        ("demo-echo?tool=x&input=[1]", "input must be a JSON object"),
        ("demo-echo?stop=tired", "$.stop"),
    ],
)
async def test_a_wrong_control_is_named(http: httpx.AsyncClient, model: str, words: str) -> None:
    request = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
    answer = await http.post("/v1/messages", json=request)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


async def test_the_model_of_the_reply_is_the_whole_name(ask: Ask) -> None:
    assert (await ask("Hello", model="demo-echo?repeat=2"))["model"] == "demo-echo?repeat=2"


async def test_echo_gives_the_message_back(ask: Ask) -> None:
    assert get_text(await ask("Ünï\ncode 😀", model="demo-echo")) == "Ünï\ncode 😀"
    assert get_text(await ask("ha", model="demo-echo?repeat=3")) == "ha ha ha"
    assert get_text(await ask("ha", model="demo-echo?say=so%20be%20it&repeat=2")) == "so be it so be it"
    rule = 'End each reply with "Bye."'
    assert get_text(await ask("ha", model="demo-echo", system=rule)) == "ha Bye."


async def test_a_varied_reply_lacks_small_words_that_the_prompt_decides(ask: Ask) -> None:
    said = "Your order ORD-1001 with " + "the small red lamp and " * 40 + "42 Boots"

    async def vary_reply(prompt: str, percent: int = 10) -> str:
        return get_text(await ask(said, model=f"demo-echo?vary={percent}", system=prompt))

    one = await vary_reply("Be kind.")
    assert one == await vary_reply("Be kind.") != await vary_reply("Be friendly.")
    assert 0.8 < len(one.split()) / len(said.split()) < 0.97
    assert {word for word in said.split() if not word.islower()} <= set(one.split())
    assert (await vary_reply("Be kind.", 0), await vary_reply("Be kind.", 100)) == (
        said,
        "Your ORD-1001 42 Boots",
    )


@pytest.mark.parametrize(
    ("model", "count"), [("demo-load", 200), ("demo-load?deltas=1", 1), ("demo-load?deltas=1000", 1000)]
)
async def test_load_sends_exactly_as_many_numbered_deltas(events: Events, model: str, count: int) -> None:
    found = await list_deltas(events("Hello", model=model))
    assert [int(piece[:6]) for piece in found] == list(range(count))
    assert {len(piece) for piece in found} == {7}


async def test_deltas_cut_any_reply_into_so_many(ask: Ask, events: Events) -> None:
    found = await list_deltas(events("Tell me a story", model="demo-shop-1?deltas=7"))
    assert len(found) == 7
    assert "".join(found) == get_text(await ask("Tell me a story"))


async def test_a_whole_answer_takes_as_long_as_its_stream(ask: Ask) -> None:
    began = time.perf_counter()
    await ask("Hello", model="demo-load?deltas=5&first_ms=40&delay_ms=10")
    assert time.perf_counter() - began >= 0.078


async def test_a_hundred_paced_streams_lose_nothing(events: Events) -> None:
    model = "demo-load?deltas=20&delay_ms=10&first_ms=50"
    found = await asyncio.gather(*(list_deltas(events("Hello", model=model)) for _ in range(100)))
    assert all([int(piece[:6]) for piece in one] == list(range(20)) for one in found)


async def test_a_reply_may_be_a_refusal(client: anthropic.AsyncAnthropic) -> None:
    async with client.messages.stream(
        model="demo-echo?stop=refusal", max_tokens=99, messages=[{"role": "user", "content": "Hello"}]
    ) as stream:
        told = await stream.get_final_message()
    assert told.stop_reason == "refusal"
    assert told.stop_details is not None
    assert told.stop_details.explanation == "The demo model was asked to refuse."


async def test_a_prompt_that_is_longer_than_the_context_is_refused(
    ask: Ask, client: anthropic.AsyncAnthropic, openai_client: openai.AsyncOpenAI
) -> None:
    assert (await ask("x" * 40, model="demo-echo?context=10"))["usage"]["input_tokens"] == 10
    asked: Any = {"model": "demo-echo?context=10", "messages": [{"role": "user", "content": "x" * 41}]}
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: 11 tokens > 10 maximum"):
        await client.messages.create(max_tokens=9, **asked)
    with pytest.raises(openai.BadRequestError) as refused:
        await openai_client.chat.completions.create(**asked)
    assert refused.value.code == "context_length_exceeded"


async def test_a_named_tool_is_called_with_the_given_input(ask: Ask) -> None:
    model = f"demo-echo?tool=get_order&input={quote(json.dumps({'order_id': 'ORD-7'}))}"
    told = await ask("Hello", model=model, tools=[GET_ORDER])
    assert list_calls(told) == [("get_order", {"order_id": "ORD-7"})]
    assert told["stop_reason"] == "tool_use"


async def test_a_tool_is_called_for_so_many_rounds(ask: Ask) -> None:
    model = "demo-echo?tool=get_order&rounds=3"
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    seen: set[str] = set()
    for _ in range(3):
        told = await ask(messages, model=model, tools=[GET_ORDER])
        assert told["stop_reason"] == "tool_use"
        call_id = told["content"][0]["id"]
        seen.add(call_id)
        result = {"type": "tool_result", "tool_use_id": call_id, "content": "{}"}
        messages += [{"role": "assistant", "content": told["content"]}, {"role": "user", "content": [result]}]
    assert len(seen) == 3
    last = await ask(messages, model=model, tools=[GET_ORDER])
    assert last["stop_reason"] == "end_turn"
    assert last["content"] == [{"type": "text", "text": "Hello"}]
