"""Replies on the Chat Completions wire, by OpenAI's SDK and by plain HTTP: the Messages wire's answers."""

import json

import httpx
import openai
import pytest

from tests.model_demo.chat import (
    BEARER,
    TOOL,
    build_calls,
    build_result,
    build_user_message,
    list_texts,
    post,
    read_chunks,
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


async def test_chunks_come_in_the_order_of_the_protocol(address: str) -> None:
    answer = await post(address, stream=True, stream_options={"include_usage": True})
    first, *deltas, finish, usage, done = read_chunks(answer)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert "".join(list_texts(deltas)) == "Hello"
    assert finish["choices"][0]["delta"] == {}
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert {chunk["usage"] for chunk in (first, *deltas, finish)} == {None}
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 4
    assert done == "data: [DONE]"
    assert {chunk["object"] for chunk in (first, *deltas, finish, usage)} == {"chat.completion.chunk"}


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


async def test_results_of_parallel_calls_are_messages_of_their_own(address: str) -> None:
    messages = [
        build_user_message("Show ORD-1001"),
        build_calls("a", "b"),
        build_result("a", '{"order_id":"ORD-1001"}'),
        build_result("b"),
    ]
    answer = await post(address, model="demo-shop-1", messages=messages, tools=[TOOL])
    assert "ORD-1001" in answer.json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize("role", ["system", "developer"])
async def test_the_system_prompt_has_two_names(address: str, role: str) -> None:
    messages = [{"role": role, "content": "You are Mira."}, build_user_message("Who are you?")]
    answer = await post(address, model="demo-shop-1", messages=messages)
    assert answer.json()["choices"][0]["message"]["content"] == "I am Mira."


async def test_prompt_tokens_include_the_cached(address: str) -> None:
    history = [
        build_user_message("Hello " * 1000),
        {"role": "assistant", "content": "Hello! How can I help?"},
        build_user_message(STORY),
    ]
    usage = (await post(address, messages=history)).json()["usage"]
    assert usage["prompt_tokens"] == 1510
    assert usage["prompt_tokens_details"]["cached_tokens"] == 1506


@pytest.mark.parametrize("raw", [b"{", b'{"model": "demo-echo", "messages": []}'])
async def test_an_invalid_request_body_is_refused(address: str, raw: bytes) -> None:
    async with httpx.AsyncClient(base_url=address, headers=BEARER) as http:
        answer = await http.post("/v1/chat/completions", content=raw)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_a_key_is_needed_and_any_will_do(address: str) -> None:
    given = [{}, {"authorization": "Basic eDp5"}, {"x-api-key": "x"}, BEARER, {"api-key": "x"}]
    answers = [await post(address, headers=headers) for headers in given]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 200, 200]
    assert "API key" in answers[0].json()["error"]["message"]
