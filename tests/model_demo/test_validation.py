"""What the API refuses is refused here, with its status, its type and words like its own."""

from typing import Any

import anthropic
import httpx
import pytest

TOOL: dict[str, Any] = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
ASK: dict[str, Any] = {"role": "user", "content": "Look!"}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}],
}
RESULT: dict[str, Any] = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a tree"}],
}
TWO_CALLS = {
    "role": "assistant",
    "content": [
        {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
        {"type": "tool_use", "id": "t2", "name": "look", "input": {}},
    ],
}


def body(**changes: Any) -> dict[str, Any]:
    whole = {"model": "demo-shop-1", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}
    return {name: value for name, value in {**whole, **changes}.items() if value is not None}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


REFUSED = [
    (body(model=None), "model: Field required"),
    (body(max_tokens=None), "max_tokens: Field required"),
    (body(messages=None), "messages: Field required"),
    (body(messages=[]), "messages: at least one message is required"),
    (body(max_tokens="many"), "max_tokens: Expected `int`"),
    (body(max_tokens=-1), "max_tokens: Input should be greater than or equal to 0"),
    (body(flavour="sweet"), "flavour: Extra inputs are not permitted"),
    (body(temperature=1.5), "temperature: range: 0..1"),
    (body(stop_sequences=[" "]), "stop_sequences: each stop sequence must contain non-whitespace"),
    (body(messages=[{"role": "system", "content": "x"}]), "messages.0.role: Invalid enum value 'system'"),
    (body(messages=[{"role": "assistant", "content": "x"}]), 'first message must use the "user" role'),
    (
        body(messages=[{"role": "user", "content": ""}]),
        "messages.0: all messages must have non-empty content",
    ),
    (body(messages=[user({"type": "text", "text": ""})]), "must contain non-whitespace text"),
    (body(messages=[user({"type": "text", "text": " "})]), "must contain non-whitespace text"),
    (body(messages=[user({"type": "video"})]), "messages.0.content.0.type: Invalid value 'video'"),
    (body(messages=[ASK, {"role": "assistant", "content": "So "}]), "cannot end with trailing whitespace"),
    (body(tools=[{"name": "a b", "input_schema": {"type": "object"}}]), "tools.0.custom.name"),
    (body(tools=[{"name": "a", "input_schema": {}}]), "tools.0.custom.input_schema.type"),
    (body(tools=[TOOL, TOOL]), "Tool names must be unique"),
    (body(tools=[{**TOOL, "type": "web_search_20260318"}]), "tools.0.type: only client tools"),
    (body(tools=[TOOL], tool_choice={"type": "must"}), "tool_choice.type: Invalid enum value 'must'"),
    (body(tools=[TOOL], tool_choice={"type": "tool"}), "tool_choice.tool.name: Field required"),
    (body(tools=[TOOL], tool_choice={"type": "tool", "name": "sing"}), "Tool 'sing' not found"),
    (body(tool_choice={"type": "any"}), "tool_choice: may only be specified while providing `tools`"),
    (body(messages=[ASK, CALL, RESULT]), "must define tools"),
    (body(tools=[TOOL], messages=[ASK, CALL]), "`tool_use` ids were found without `tool_result` blocks"),
    (body(tools=[TOOL], messages=[ASK, TWO_CALLS, RESULT]), "immediately after: t2."),
    (body(tools=[TOOL], messages=[ASK, CALL, ASK]), "immediately after: t1."),
    (
        body(tools=[TOOL], messages=[ASK, CALL, user({"type": "text", "text": "Well:"}, *RESULT["content"])]),
        "immediately after: t1.",
    ),
    (body(tools=[TOOL], messages=[RESULT]), "messages.0.content.0: unexpected `tool_use_id`"),
    (
        body(tools=[TOOL], messages=[ASK, CALL, user(*RESULT["content"], *RESULT["content"])]),
        "each tool_use must have a single result",
    ),
    (
        body(tools=[TOOL], messages=[ASK, CALL, RESULT, CALL, RESULT]),
        "messages.3: `tool_use` ids must be unique",
    ),
    (body(thinking={"type": "enabled"}), "thinking.enabled.budget_tokens: Field required"),
    (body(thinking={"type": "enabled", "budget_tokens": 10}), "greater than or equal to 1024"),
    (body(thinking={"type": "enabled", "budget_tokens": 2000}), "`max_tokens` must be greater"),
]


@pytest.mark.parametrize(("request_body", "words"), REFUSED, ids=[words for _, words in REFUSED])
async def test_a_wrong_request_is_told_what_is_wrong(
    http: httpx.AsyncClient, request_body: dict[str, Any], words: str
) -> None:
    answer = await http.post("/v1/messages", json=request_body)
    assert answer.status_code == 400
    told = answer.json()
    assert told["type"] == "error"
    assert told["error"]["type"] == "invalid_request_error"
    assert words in told["error"]["message"]
    assert told["request_id"] == answer.headers["request-id"]


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'"text"', b"[" * 200_000, b"\xff\xfe", b'{"model": "demo-echo", "max_tokens": NaN}']
)
async def test_a_body_that_is_no_request_is_refused(http: httpx.AsyncClient, raw: bytes) -> None:
    answer = await http.post("/v1/messages", content=raw)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_results_in_several_user_messages_are_one_turn(http: httpx.AsyncClient) -> None:
    split = [
        ASK,
        TWO_CALLS,
        RESULT,
        user({"type": "tool_result", "tool_use_id": "t2", "content": "a lake"}),
    ]
    answer = await http.post("/v1/messages", json=body(tools=[TOOL], messages=split))
    assert answer.status_code == 200


async def test_a_key_is_needed_and_any_will_do(address: str) -> None:
    async with httpx.AsyncClient(base_url=address, headers={"anthropic-version": "2023-06-01"}) as anyone:
        without = await anyone.post("/v1/messages", json=body())
        empty = await anyone.post("/v1/messages", json=body(), headers={"x-api-key": ""})
        basic = await anyone.post("/v1/messages", json=body(), headers={"authorization": "Basic eDp5"})
        bearer = await anyone.post("/v1/messages", json=body(), headers={"authorization": "Bearer x"})
        with_any = await anyone.post("/v1/messages", json=body(), headers={"x-api-key": "x"})
    assert [answer.status_code for answer in (without, empty, basic)] == [401, 401, 401]
    assert [answer.status_code for answer in (bearer, with_any)] == [200, 200]
    assert without.json()["error"] == {
        "type": "authentication_error",
        "message": "x-api-key or authorization header is required",
    }


async def test_the_protocols_version_is_needed(address: str) -> None:
    async with httpx.AsyncClient(base_url=address, headers={"x-api-key": "x"}) as anyone:
        answer = await anyone.post("/v1/messages", json=body())
    assert answer.status_code == 400
    assert "anthropic-version" in answer.json()["error"]["message"]


async def test_an_unknown_model_is_not_found(client: anthropic.AsyncAnthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as caught:
        await client.messages.create(
            model="demo-nobody", max_tokens=10, messages=[{"role": "user", "content": "Hello"}]
        )
    assert caught.value.type == "not_found_error"


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/messages", 405), ("GET", "/nowhere", 404)]
)
async def test_unknown_paths_and_methods_have_the_errors_form(
    http: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await http.request(method, path)
    assert answer.status_code == status
    assert answer.json()["type"] == "error"
    assert answer.json()["request_id"] == answer.headers["request-id"]


async def test_a_body_over_32_mib_is_too_large(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/messages", content=b" " * (32 * 1024 * 1024 + 1))
    assert answer.status_code == 413
    assert answer.json()["error"]["type"] == "request_too_large"
