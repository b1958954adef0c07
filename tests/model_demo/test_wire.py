"""The Messages protocol, read by the official SDK and by plain HTTP."""

from typing import Any

import anthropic
import httpx

from tests.model_demo.messages import GET_ORDER

STORY = "Tell me a story"


def build_body(text: str = STORY, **more: Any) -> dict[str, Any]:
    return {
        "model": "demo-shop-1",
        "max_tokens": 4000,
        "messages": [{"role": "user", "content": text}],
        **more,
    }


async def test_a_stream_says_what_the_message_says(client: anthropic.AsyncAnthropic) -> None:
    message = await client.messages.create(
        model="demo-shop-1", max_tokens=4000, messages=[{"role": "user", "content": STORY}]
    )
    async with client.messages.stream(
        model="demo-shop-1", max_tokens=4000, messages=[{"role": "user", "content": STORY}]
    ) as stream:
        pieces = [piece async for piece in stream.text_stream]
        streamed = await stream.get_final_message()
    assert len(pieces) > 50
    assert streamed.content[0].type == message.content[0].type == "text"
    assert "".join(pieces) == streamed.content[0].text == message.content[0].text
    assert streamed.usage == message.usage
    assert streamed.id == message.id


async def test_the_sdk_puts_tool_calls_together_from_a_stream(client: anthropic.AsyncAnthropic) -> None:
    tool: Any = GET_ORDER
    asked: list[anthropic.types.MessageParam] = [{"role": "user", "content": "Show ORD-1001 and ORD-1002"}]
    async with client.messages.stream(
        model="demo-shop-1", max_tokens=4000, messages=asked, tools=[tool]
    ) as stream:
        streamed = await stream.get_final_message()
    whole = await client.messages.create(model="demo-shop-1", max_tokens=4000, messages=asked, tools=[tool])
    inputs = [block.input for block in streamed.content if block.type == "tool_use"]
    assert inputs == [{"order_id": "ORD-1001"}, {"order_id": "ORD-1002"}]
    assert streamed.to_dict() == whole.to_dict()


async def test_cached_tokens_are_counted_apart_and_the_sum_stays(http: httpx.AsyncClient) -> None:
    history = [
        {"role": "user", "content": "Hello " * 1000},
        {"role": "assistant", "content": "Hello! How can I help?"},
        {"role": "user", "content": [{"type": "text", "text": STORY}]},
    ]
    plain = (await http.post("/v1/messages", json=build_body(messages=history))).json()["usage"]
    marked = (
        await http.post(
            "/v1/messages", json=build_body(messages=history, cache_control={"type": "ephemeral"})
        )
    ).json()["usage"]
    assert plain["cache_read_input_tokens"] == plain["cache_creation_input_tokens"] == 0
    assert marked["cache_read_input_tokens"] == 1500 + 6
    assert marked["cache_creation_input_tokens"] == 4
    assert marked["input_tokens"] == 0
    assert plain["input_tokens"] == 1510


async def test_max_tokens_cut_the_text(client: anthropic.AsyncAnthropic) -> None:
    whole = await client.messages.create(
        model="demo-shop-1", max_tokens=4000, messages=[{"role": "user", "content": STORY}]
    )
    cut = await client.messages.create(
        model="demo-shop-1", max_tokens=10, messages=[{"role": "user", "content": STORY}]
    )
    assert whole.content[0].type == cut.content[0].type == "text"
    assert cut.stop_reason == "max_tokens"
    assert cut.usage.output_tokens == 10
    assert cut.content[0].text == whole.content[0].text[:40]
