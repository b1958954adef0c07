"""Replies on the Chat Completions wire, by OpenAI's SDK and by plain HTTP: the Messages wire's answers."""

import json

import openai

from tests.model_demo.chat import (
    TOOL,
    build_user_message,
)
from tests.model_demo.messages import Ask

STORY = "Tell me a story"


async def test_both_wires_say_the_same(openai_client: openai.AsyncOpenAI, ask: Ask) -> None:
    completion = await openai_client.chat.completions.create(
        model="demo-shop-1", messages=[build_user_message(STORY)]
    )
    assert completion.choices[0].message.content == (await ask(STORY))["content"][0]["text"]
    assert completion.choices[0].message.role == "assistant"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.model == "demo-shop-1"
    assert completion.id.startswith("chatcmpl-")
    assert completion._request_id is not None
    assert completion._request_id.startswith("req_")


async def test_the_sdk_puts_tool_calls_together_from_a_stream(openai_client: openai.AsyncOpenAI) -> None:
    asked = [build_user_message("Show ORD-1001 and ORD-1002")]
    async with openai_client.chat.completions.stream(
        model="demo-shop-1",
        messages=asked,
        tools=[TOOL],  # type: ignore[list-item]
    ) as stream:
        streamed = (await stream.get_final_completion()).choices[0]
    whole = (
        await openai_client.chat.completions.create(
            model="demo-shop-1",
            messages=asked,
            tools=[TOOL],  # type: ignore[list-item]
        )
    ).choices[0]
    assert streamed.finish_reason == whole.finish_reason == "tool_calls"
    assert streamed.message.tool_calls is not None
    assert whole.message.tool_calls is not None
    found = [(one.id, one.type, one.function.arguments) for one in streamed.message.tool_calls]
    assert [json.loads(arguments)["order_id"] for _, _, arguments in found] == ["ORD-1001", "ORD-1002"]
    assert len({call_id for call_id, _, _ in found}) == 2
    assert found == [
        (one.id, one.type, one.function.arguments)
        for one in whole.message.tool_calls
        if one.type == "function"
    ]
