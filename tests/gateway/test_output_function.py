"""A function of the client that it forces is answered with the reply as its arguments: structured output."""

import asyncio
import json
from typing import Any

import httpx
import pytest

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
