"""What the Chat Completions wire refuses, in OpenAI's form and in words like its own."""

from typing import Any

import httpx
import pytest

from tests.model_demo.chat import BEARER, calls, post, result, user

pytestmark = pytest.mark.requirement("MODEL-DEMO-OPENAI")


OPEN = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
OPTIONAL = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
ALL_OF = {"allOf": [OPEN], "type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "words"), [(OPEN, "additionalProperties"), (OPTIONAL, "Missing 'a'"), (ALL_OF, "'allOf'")]
)
async def test_a_strict_schema_is_closed_and_complete(
    address: str, schema: dict[str, Any], words: str
) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}
    answer = await post(address, response_format=wanted)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    wanted["json_schema"]["strict"] = False  # type: ignore[index]
    assert (await post(address, response_format=wanted)).status_code == 200


@pytest.mark.parametrize(
    ("more", "param", "words"),
    [
        ({"messages": []}, "messages", "length"),
        ({"messages": [{"role": "bot", "content": "x"}]}, "messages[0].role", "Invalid value"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages", "user's"),
        (
            {"messages": [{**user("x"), "provider_data": {}}]},
            "messages[0].provider_data",
            "Unknown parameter",
        ),
        (
            {"messages": [user("x"), calls("a", "b"), result("a")]},
            "messages.[3].role",
            "response messages: b",
        ),
        ({"messages": [user("x"), calls("a"), user("y")]}, "messages.[2].role", "response messages: a"),
        ({"messages": [user("x"), result("a")]}, "messages.[1].role", "preceding message"),
        ({"n": 2}, "n", "Invalid value"),
        ({"max_tokens": 0}, "max_tokens", "Invalid value"),
        ({"temperature": 3}, "temperature", "Invalid value"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "only allowed when 'stream'"),
        ({"tool_choice": "auto"}, "tool_choice", "only allowed when 'tools'"),
        ({"thinking": {}}, "thinking", "Unknown parameter"),
        ({"model": None}, "model", "Invalid value"),
        ({"model": "demo-echo?delta=1"}, None, "unknown control 'delta'"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name", "pattern"),
    ],
)
async def test_a_wrong_request_is_told_what_is_wrong(
    address: str, more: dict[str, Any], param: str | None, words: str
) -> None:
    answer = await post(address, **more)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert words in error["message"]


@pytest.mark.parametrize("raw", [b"", b"{", b'"text"', b"[" * 200_000, b"\xff\xfe"])
async def test_a_body_that_is_no_request_is_refused(address: str, raw: bytes) -> None:
    async with httpx.AsyncClient(base_url=address, headers=BEARER) as http:
        answer = await http.post("/v1/chat/completions", content=raw)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_a_key_is_needed_and_any_will_do(address: str) -> None:
    given = [{}, {"authorization": "Basic eDp5"}, {"x-api-key": "x"}, BEARER, {"api-key": "x"}]
    answers = [await post(address, headers=headers) for headers in given]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 200, 200]
    assert "API key" in answers[0].json()["error"]["message"]


async def test_an_unknown_path_is_not_found_in_the_wires_own_form(address: str) -> None:
    async with httpx.AsyncClient(base_url=address, headers=BEARER) as http:
        answer = await http.post("/v1/chat/nothing", content=b"{}")
    assert answer.status_code == 404
    assert answer.json()["error"]["param"] is None
