"""The Messages protocol, read by the official SDK and by plain HTTP."""

from typing import Any

import anthropic
import httpx
import msgspec
import pytest

pytestmark = pytest.mark.requirement("MODEL-DEMO")

STORY = "Tell me a story"


def body(text: str = STORY, **more: Any) -> dict[str, Any]:
    return {
        "model": "demo-shop-1",
        "max_tokens": 4000,
        "messages": [{"role": "user", "content": text}],
        **more,
    }


async def events_of(http: httpx.AsyncClient, request: dict[str, Any]) -> list[tuple[str, Any]]:
    """The events of a stream: name and data."""
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
    tool: anthropic.types.ToolParam = {
        "name": "get_order",
        "description": "Show an order.",
        "input_schema": {
            "type": "object",
            "properties": {"order_id": {"type": "string", "pattern": "^ORD-[0-9]{4}$"}},
            "required": ["order_id"],
        },
    }
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
        answers = [await http.post("/v1/messages", json=body(stream=stream)) for _ in range(2)]
        assert answers[0].content == answers[1].content
        assert answers[0].headers["request-id"] != answers[1].headers["request-id"]


async def test_events_come_in_the_order_of_the_protocol(http: httpx.AsyncClient) -> None:
    events = await events_of(http, body())
    names = [name for name, _ in events]
    assert names[:3] == ["message_start", "ping", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(names[3:-3]) == {"content_block_delta"}
    assert all(name == data["type"] for name, data in events)


async def test_usage_of_the_last_event_is_the_whole(http: httpx.AsyncClient) -> None:
    events = await events_of(http, body())
    started, ended = events[0][1]["message"], events[-2][1]
    assert started["stop_reason"] is None
    assert started["usage"]["input_tokens"] == ended["usage"]["input_tokens"] == 4
    text = "".join(data["delta"]["text"] for name, data in events if name == "content_block_delta")
    assert ended["usage"]["output_tokens"] == -(-len(text.encode()) // 4)
    assert ended["delta"] == {"stop_reason": "end_turn", "stop_sequence": None, "stop_details": None}


async def test_counting_tokens_agrees_with_usage(client: anthropic.AsyncAnthropic) -> None:
    tool: anthropic.types.ToolParam = {
        "name": "look",
        "description": "Look around.",
        "input_schema": {"type": "object", "properties": {}},
    }
    asked: list[anthropic.types.MessageParam] = [{"role": "user", "content": STORY}]
    counted = await client.messages.count_tokens(
        model="demo-shop-1", messages=asked, system="You are Mira.", tools=[tool]
    )
    message = await client.messages.create(
        model="demo-shop-1", max_tokens=4000, messages=asked, system="You are Mira.", tools=[tool]
    )
    assert counted.input_tokens == message.usage.input_tokens


async def test_cached_tokens_are_told_apart_and_the_sum_stays(http: httpx.AsyncClient) -> None:
    history = [
        {"role": "user", "content": "Hello " * 1000},
        {"role": "assistant", "content": "Hello! How can I help?"},
        {"role": "user", "content": [{"type": "text", "text": STORY}]},
    ]
    plain = (await http.post("/v1/messages", json=body(messages=history))).json()["usage"]
    marked = (
        await http.post("/v1/messages", json=body(messages=history, cache_control={"type": "ephemeral"}))
    ).json()["usage"]
    assert plain["cache_read_input_tokens"] == plain["cache_creation_input_tokens"] == 0
    assert marked["cache_read_input_tokens"] == 1500 + 6
    assert marked["cache_creation_input_tokens"] == 4
    assert marked["input_tokens"] == 0
    assert plain["input_tokens"] == 1510


async def test_short_prefixes_are_not_cached(http: httpx.AsyncClient) -> None:
    usage = (await http.post("/v1/messages", json=body(cache_control={"type": "ephemeral"}))).json()["usage"]
    assert usage["cache_read_input_tokens"] == usage["cache_creation_input_tokens"] == 0
    assert usage["input_tokens"] == 4


async def test_the_system_prompt_is_a_text_or_blocks(http: httpx.AsyncClient) -> None:
    as_text = await http.post("/v1/messages", json=body("Who are you?", system="You are Mira."))
    as_blocks = await http.post(
        "/v1/messages",
        json=body(
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


async def test_max_tokens_cut_whole_characters(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/messages", json=body("ä€😀" * 9, model="demo-echo", max_tokens=5))
    text = answer.json()["content"][0]["text"]
    assert text == ("ä€😀" * 9)[: len(text)]
    assert len(text.encode()) <= 20


async def test_no_tokens_at_all_only_count_the_request(http: httpx.AsyncClient) -> None:
    answer = (await http.post("/v1/messages", json=body(max_tokens=0))).json()
    assert answer["content"] == []
    assert answer["stop_reason"] == "max_tokens"


async def test_a_stop_sequence_ends_the_text_before_it(client: anthropic.AsyncAnthropic) -> None:
    message = await client.messages.create(
        model="demo-shop-1",
        max_tokens=4000,
        messages=[{"role": "user", "content": "count to 20"}],
        stop_sequences=["never said", ", 5"],
    )
    assert message.content[0].type == "text"
    assert message.content[0].text == "1, 2, 3, 4"
    assert message.stop_reason == "stop_sequence"
    assert message.stop_sequence == ", 5"


async def test_thinking_comes_first_and_goes_back_unchanged(client: anthropic.AsyncAnthropic) -> None:
    async def ask(messages: list[anthropic.types.MessageParam]) -> anthropic.types.Message:
        async with client.messages.stream(
            model="demo-shop-1",
            max_tokens=4000,
            messages=messages,
            thinking={"type": "enabled", "budget_tokens": 1024},
        ) as stream:
            return await stream.get_final_message()

    first = await ask([{"role": "user", "content": "Hello"}])
    thought = first.content[0]
    assert thought.type == "thinking"
    assert thought.thinking
    assert first.usage.output_tokens_details is not None
    assert 0 < first.usage.output_tokens_details.thinking_tokens < first.usage.output_tokens
    again: list[anthropic.types.MessageParam] = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": "Thanks"},
    ]
    assert (await ask(again)).stop_reason == "end_turn"
    thought.thinking += " More."
    with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
        await ask(again)


async def test_thinking_may_be_left_out_of_sight(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/messages", json=body(thinking={"type": "adaptive", "display": "omitted"}))
    thought = answer.json()["content"][0]
    assert thought["type"] == "thinking"
    assert thought["thinking"] == ""
    assert thought["signature"]


async def test_models_are_listed(client: anthropic.AsyncAnthropic) -> None:
    listed = [model.id async for model in client.models.list(limit=2)]
    assert listed == ["demo-shop-1", "demo-echo", "demo-load"]
    assert (await client.models.retrieve("demo-echo")).display_name == "Demo Echo"


@pytest.mark.requirement("HEALTH")
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_is_told_without_a_key(address: str, path: str) -> None:
    async with httpx.AsyncClient() as anyone:
        answer = await anyone.get(address + path)
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "checks": {}}
