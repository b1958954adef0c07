"""The Messages protocol, read by the official SDK and by plain HTTP."""

from typing import Any

import anthropic
import httpx
import msgspec
import pytest

from tests.model_demo.messages import GET_ORDER

STORY = "Tell me a story"


def build_body(text: str = STORY, **more: Any) -> dict[str, Any]:
    return {
        "model": "demo-shop-1",
        "max_tokens": 4000,
        "messages": [{"role": "user", "content": text}],
        **more,
    }


async def read_events(http: httpx.AsyncClient, request: dict[str, Any]) -> list[tuple[str, Any]]:
    """Read the events of a stream: name and data."""
    answer = await http.post("/v1/messages", json={**request, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = answer.text.removesuffix("\n\n").split("\n\n")
    lines = [block.split("\n") for block in blocks]
    assert all(len(pair) == 2 for pair in lines)
    return [
        (name.removeprefix("event: "), msgspec.json.decode(data.removeprefix("data: ")))
        for name, data in lines
    ]


async def test_the_sdk_reads_a_message(client: anthropic.AsyncAnthropic) -> None:
    message = await client.messages.create(
        model="demo-shop-1", max_tokens=4000, messages=[{"role": "user", "content": STORY}]
    )
    assert message.role == "assistant"
    assert message.model == "demo-shop-1"
    assert message.stop_reason == "end_turn"
    assert message.id.startswith("msg_")
    assert message._request_id is not None
    assert message._request_id.startswith("req_")
    assert message.content[0].type == "text"
    assert len(message.content[0].text) > 500


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


async def test_the_same_request_has_the_same_bytes(http: httpx.AsyncClient) -> None:
    for stream in (False, True):
        answers = [await http.post("/v1/messages", json=build_body(stream=stream)) for _ in range(2)]
        assert answers[0].content == answers[1].content
        assert answers[0].headers["request-id"] != answers[1].headers["request-id"]


async def test_events_come_in_the_order_of_the_protocol(http: httpx.AsyncClient) -> None:
    events = await read_events(http, build_body())
    names = [name for name, _ in events]
    assert names[:3] == ["message_start", "ping", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(names[3:-3]) == {"content_block_delta"}
    assert all(name == data["type"] for name, data in events)


async def test_cached_tokens_are_told_apart_and_the_sum_stays(http: httpx.AsyncClient) -> None:
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


async def test_the_system_prompt_is_a_text_or_blocks(http: httpx.AsyncClient) -> None:
    as_text = await http.post("/v1/messages", json=build_body("Who are you?", system="You are Mira."))
    as_blocks = await http.post(
        "/v1/messages",
        json=build_body(
            "Who are you?",
            system=[{"type": "text", "text": "You are Mira.", "cache_control": {"type": "ephemeral"}}],
        ),
    )
    assert (
        as_text.json()["content"] == as_blocks.json()["content"] == [{"type": "text", "text": "I am Mira."}]
    )


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


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_is_told_without_a_key(address: str, path: str) -> None:
    async with httpx.AsyncClient() as anyone:
        answer = await anyone.get(address + path)
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "checks": {}}
