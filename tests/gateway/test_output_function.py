"""A function of the client that it forces is answered with the reply as its arguments: structured output."""

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel

from agentchat.contracts import ids
from agentchat.gateway.protocols.openai.structured_output import read_output_function
from tests.gateway.client import Client
from tests.gateway.worker import Worker

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NESTED = {"type": "function", "function": {"name": "out", "parameters": SCHEMA}}
FLAT = {"type": "function", "name": "out", "parameters": SCHEMA}
OTHER = {"type": "function", "function": {"name": "other", "parameters": SCHEMA}}
NAMED = {"type": "function", "function": {"name": "out"}}
ALLOWED = {"mode": "required", "tools": [NAMED]}


@pytest.mark.parametrize(
    ("tools", "choice", "is_forced"),
    [
        ([NESTED], "required", True),
        ([FLAT], "required", True),
        ([NESTED], NAMED, True),
        ([FLAT], {"type": "function", "name": "out"}, True),
        ([OTHER, NESTED], NAMED, True),
        ([NESTED, OTHER], {"type": "allowed_tools", "allowed_tools": ALLOWED}, True),
        ([FLAT], {"type": "allowed_tools", **ALLOWED}, True),
        ([NESTED, OTHER], "required", False),
        ([NESTED, {"type": "web_search"}], "required", False),
        ([NESTED], "auto", False),
        ([NESTED], None, False),
        ([], "required", False),
        (None, "required", False),
        ([OTHER], NAMED, False),
        ([NESTED], {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}, False),
        ([NESTED], {"type": "custom", "custom": {"name": "out"}}, False),
        ([NESTED], {"type": "function", "function": {"name": 7}}, False),
        ([1, "x", None], "required", False),
    ],
)
def test_one_forced_function_is_the_output(tools: Any, choice: Any, is_forced: bool) -> None:
    function = read_output_function(tools, choice)
    assert (function is not None) is is_forced
    if function is not None:
        assert (function.name, function.wanted.schema) == ("out", SCHEMA)


class City(BaseModel):
    city: str


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("model_class", ["OpenAIChatModel", "OpenAIResponsesModel"])
async def test_pydantic_ai_gets_its_output_model(
    client: Client, worker: Worker, model_class: str, is_streamed: bool
) -> None:
    # Imported at a module's top, Pydantic AI would cost every process of the tests a second.
    from pydantic_ai import Agent
    from pydantic_ai.models import openai as models
    from pydantic_ai.providers.openai import OpenAIProvider

    sdk = openai.AsyncOpenAI(
        api_key=client.headers["X-Api-Key"],
        base_url=f"{client.url}/openai/v1",
        default_headers={"X-Conversation-Id": ids.make_id()},
        max_retries=0,
    )
    provider = OpenAIProvider(openai_client=sdk)
    model = getattr(models, model_class)(client.headers["X-Agent-Id"], provider=provider)
    agent, first, second = Agent(model, output_type=City), ids.make_id(), ids.make_id()

    async def ask(message: str, history: Any = None) -> Any:
        if not is_streamed:
            return await agent.run(message, message_history=history)
        async with agent.run_stream(message, message_history=history) as result:
            await result.get_output()
            return result

    asked = asyncio.create_task(ask(first))
    turn = await worker.next(first)
    assert turn.request.output_schema is not None
    assert turn.request.output_schema["required"] == ["city"]
    await turn.answer('{"city":"Oslo"}')
    result = await asked
    output = await result.get_output() if is_streamed else result.output
    assert output == City(city="Oslo")
    asked = asyncio.create_task(ask(second, result.all_messages()))
    turn = await worker.next(second)
    shown = [(each.role, each.content) for each in turn.request.history]
    assert shown == [("user", first), ("assistant", '{"city":"Oslo"}')], "its result is not shown"
    await turn.answer('{"city":"Bergen"}')
    await asked
    await sdk.close()


async def ask_completion(client: Client, **body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {client.headers['X-Api-Key']}"}
    given = {"model": client.headers["X-Agent-Id"], "tools": [NESTED], "tool_choice": NAMED, **body}
    return await client.http.post(f"{client.url}/openai/v1/chat/completions", json=given, headers=headers)


@pytest.mark.parametrize("stream", [False, True])
async def test_reply_is_the_arguments_of_the_function(client: Client, worker: Worker, stream: bool) -> None:
    message = ids.make_id()
    shown = [{"role": "user", "content": message}]
    asked = asyncio.create_task(ask_completion(client, messages=shown, stream=stream))
    turn = await (await worker.next(message)).accept()
    await turn.delta('{"city":')
    await turn.delta('"Oslo"}')
    await turn.complete()
    response = await asked
    assert "x-ignored-parameters" not in response.headers
    if not stream:
        choice = response.json()["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")
        (call,) = choice["message"]["tool_calls"]
        assert call.keys() == {"id", "type", "function"}
        assert call["function"] == {"name": "out", "arguments": '{"city":"Oslo"}'}
        return
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
    choices = [json.loads(line)["choices"][0] for line in lines]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    assert [call["index"] for call in calls] == [0] * len(calls)
    assert [call["function"].get("name") for call in calls] == ["out", *[None] * (len(calls) - 1)]
    assert "".join(call["function"]["arguments"] for call in calls) == '{"city":"Oslo"}'
    assert choices[-1]["finish_reason"] == "tool_calls"


async def test_retry_of_the_output_function_is_the_message(client: Client, worker: Worker) -> None:
    function = {"name": "out", "arguments": "{}"}
    shown = [
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "city is missing"},
    ]
    asked = asyncio.create_task(ask_completion(client, messages=shown))
    turn = await worker.next("[Tool result out: city is missing]")
    assert [each.content for each in turn.request.history] == ["Where?", "{}"]
    await turn.answer('{"city":"Oslo"}')
    assert (await asked).status_code == 200


async def test_wrong_schema_of_the_function_is_refused_by_its_place(client: Client) -> None:
    shown = [{"role": "user", "content": "hi"}]
    for parameters, place in ((None, ""), ({"type": "array"}, ".type"), (7, "")):
        function = {"type": "function", "function": {"name": "out", "parameters": parameters}}
        response = await ask_completion(client, messages=shown, tools=[function])
        assert response.status_code == 400, response.text
        assert response.json()["error"]["param"] == f"tools[0].function.parameters{place}"
