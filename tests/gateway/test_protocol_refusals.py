"""What the protocols for other clients refuse: each in its own shape, by the place of what is wrong."""

import re
from typing import Any

import httpx
import pytest

from tests.gateway.client import Client, check_problem

CHAT, RESPONSES = "/openai/v1/chat/completions", "/openai/v1/responses"
AG_UI, AI_SDK = "/ag-ui/v1/agents/{agent}", "/ai-sdk/v1/agents/{agent}/chat"

HI: dict[str, Any] = {"role": "user", "content": "hi"}
RUN = {"threadId": "t", "runId": "r"}
CANCELLED = {"interruptId": "1", "status": "cancelled"}
RESOLVED = {"interruptId": "2", "status": "resolved"}
OWN = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}


def make_ui_chat(role: str, *texts: str, **more: Any) -> dict[str, Any]:
    """A message of the AI SDK's."""
    return {"id": "m", "role": role, "parts": [{"type": "text", "text": text} for text in texts], **more}


def chat(**fields: Any) -> dict[str, Any]:
    return {"messages": [HI], **fields}


def make_schema(given: Any, **more: Any) -> dict[str, Any]:
    wanted = {"name": "reply", "schema": given, **more}
    return chat(response_format={"type": "json_schema", "json_schema": wanted})


def make_reference(item_id: str) -> dict[str, Any]:
    return {"input": [HI, {"type": "item_reference", "id": item_id}, HI]}


_FORMAT = "response_format.json_schema"
BODIES: dict[str, list[tuple[Any, str]]] = {
    CHAT: [
        ([], "body"),
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [HI, {"role": "assistant", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": " \n"}]}, "messages"),
        ({"messages": [{"role": "owner", "content": "x"}, HI]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "assistant", "tool_calls": {}}, HI]}, "messages[0].tool_calls"),
        ({"messages": [{"role": "tool", "content": [{"type": "image_url"}]}, HI]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
        (chat(model=1), "model"),
        (chat(stream="yes"), "stream"),
        (chat(n=2), "n"),
        (chat(logprobs=True), "logprobs"),
        (chat(tool_choice="required"), "tool_choice"),
        (chat(modalities=["audio"]), "modalities"),
        (chat(response_format={"type": "grammar"}), "response_format"),
        (chat(response_format={"type": "json_schema"}), _FORMAT),
        (chat(response_format={"type": "json_schema", "json_schema": {"schema": OWN}}), f"{_FORMAT}.name"),
        (make_schema(OWN, strict="yes"), f"{_FORMAT}.strict"),
        (make_schema({"type": "array"}), f"{_FORMAT}.schema.type"),
        (
            make_schema(OWN | {"properties": {"a": {"$ref": "http://x/"}}}),
            f"{_FORMAT}.schema.properties.a.$ref",
        ),
        (make_schema({"type": "object", "description": "x" * 17_000}), f"{_FORMAT}.schema"),
        (make_schema({"type": "object", "description": "\0"}), f"{_FORMAT}.schema"),
    ],
    RESPONSES: [
        ({"input": []}, "input"),
        ({"input": " "}, "input"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "input"),
        ({"input": [{"type": "image_generation_call"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]"),
        ({"input": [{"type": "mcp_approval_response"}]}, "input[0].approve"),
        ({"input": "hi", "tool_choice": "required"}, "tool_choice"),
        ({"input": "hi", "prompt": {"id": "p"}}, "prompt"),
        (
            {
                "input": [
                    {"type": "function_call_output", "call_id": f"tc_{'0' * 32}", "output": "1"},
                    {"role": "user", "content": "hi"},
                ],
                "previous_response_id": "resp_x",
            },
            "input[0]",
        ),
        ({"input": "hi", "previous_response_id": "resp_x"}, "previous_response_id"),
        ({"input": "hi", "conversation": "mine"}, "conversation"),
        ({"input": "hi", "conversation": "c", "previous_response_id": "r"}, "previous_response_id"),
        *((make_reference(name), "input[1].id") for name in ("msg_1", "rs_abc", "", f"msg_{'0' * 31}1_1")),
    ],
    AG_UI: [
        ({"runId": "r", "messages": [HI]}, "threadId"),
        (RUN, "messages"),
        ({**RUN, "messages": []}, "messages"),
        ({**RUN, "runId": " ", "messages": [HI]}, "runId"),
        ({**RUN, "runId": "r" * 256, "messages": [HI]}, "runId"),
        ({**RUN, "threadId": "undefined", "messages": [HI]}, "threadId"),
        ({**RUN, "messages": [HI], "resume": [CANCELLED]}, "resume"),
        ({**RUN, "messages": [], "resume": [CANCELLED, RESOLVED]}, "resume[1].payload"),
        ({**RUN, "messages": [], "resume": [RESOLVED | {"payload": {}}]}, "resume[0].payload.approved"),
        ({**RUN, "messages": [], "resume": [{"interruptId": "1", "status": "x"}]}, "resume[0].status"),
        ({**RUN, "messages": [HI, {"role": "tool", "content": "1", "toolCallId": "c"}]}, "messages"),
        ({**RUN, "messages": [HI, {"role": "assistant", "toolCalls": []}]}, "messages"),
        ({**RUN, "messages": [{"role": "owner", "content": "x"}, HI]}, "messages[0].role"),
        ({**RUN, "messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0]"),
        ({**RUN, "messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
    ],
    AI_SDK: [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [make_ui_chat("system", "x")]}, "messages"),
        ({"messages": [make_ui_chat("user", "hi"), make_ui_chat("assistant", "x")]}, "messages"),
        ({"messages": [make_ui_chat("user", " \n")]}, "messages"),
        ({"messages": [make_ui_chat("owner", "x"), make_ui_chat("user", "hi")]}, "messages[0].role"),
        ({"messages": [HI]}, "messages[0].parts"),
        (
            {"messages": [make_ui_chat("user", parts=[{"type": "file", "url": "ftp://x/"}])]},
            "messages[0].parts[0]",
        ),
        ({"messages": [make_ui_chat("user", "hi")], "trigger": "resume"}, "trigger"),
        ({"messages": [make_ui_chat("user", "hi")], "id": "undefined"}, "id"),
        ({"messages": [make_ui_chat("user", "hi")], "id": " "}, "id"),
        ({"messages": [make_ui_chat("user", "hi")], "id": 7}, "id"),
    ],
}


CASES = [
    pytest.param(path, body, place, id=f"{path.split('/')[-1]} {number}: {place}")
    for path, rows in BODIES.items()
    for number, (body, place) in enumerate(rows)
]


class Caller:
    """One account's key, sent as each protocol's clients send it; refusals read in each protocol's shape."""

    def __init__(self, client: Client) -> None:
        self.http, self.url = client.http, client.url
        self.key, self.agent = client.headers["X-Api-Key"], client.headers["X-Agent-Id"]
        self.bearer = {"Authorization": f"Bearer {self.key}"}

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        if path in (CHAT, RESPONSES) and isinstance(body, dict):
            body = {"model": self.agent, **body}
        return await self.send("POST", path, json=body, headers={**self.bearer, **headers})

    async def send(self, method: str, path: str, **given: Any) -> httpx.Response:
        return await self.http.request(method, self.url + path.replace("{agent}", self.agent), **given)


def refusal_of(path: str, response: httpx.Response) -> tuple[str, str | None]:
    """Its code, and the place that it names, or the words where it names none."""
    if path.startswith("/ai-sdk"):
        assert (response.headers["content-type"], len(response.text.splitlines())) == ("text/plain", 1)
        code, _, words = response.text.partition(": ")
        return code, words.partition(": ")[0]
    assert response.headers["content-type"] == "application/json"
    if path.startswith("/ag-ui"):
        problem = response.json()
        assert problem["type"] == "RUN_ERROR"
        return problem["code"], problem["message"].partition(": ")[0]
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error["code"], error["param"]


@pytest.fixture
def caller(client: Client) -> Caller:
    return Caller(client)


@pytest.mark.parametrize(("path", "body", "place"), CASES)
async def test_an_unsupported_message_is_refused_by_its_field(
    caller: Caller, path: str, body: Any, place: str
) -> None:
    response = await caller.post(path, body)
    is_file = re.search(r"(content|parts)\[0\]\Z", place) is not None
    code = "unsupported_attachment" if is_file else "invalid_request"
    assert (response.status_code, *refusal_of(path, response)) == (400, code, place)


UI_CHAT = b'{"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}]}'
AG_UI_RUN = b'{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}]}'
TWICE = b'{"model":"a","model":"b","messages":[]}'


@pytest.mark.parametrize(
    ("method", "path", "key", "content", "status", "code"),
    [
        ("GET", "/openai/v1/none", "bearer", None, 404, "not_found"),
        ("GET", CHAT, "bearer", None, 405, "method_not_allowed"),
        ("POST", CHAT, "bearer", None, 415, "unsupported_media_type"),
        ("POST", CHAT, "bearer", TWICE, 400, "invalid_request"),
        ("POST", "/openai/deployments/{agent}/embeddings", "api-key", b"{}", 404, "not_found"),
        ("POST", "/openai/deployments//chat/completions", "api-key", b"{}", 404, "not_found"),
        ("POST", AG_UI, None, AG_UI_RUN, 401, "missing_api_key"),
        ("POST", AG_UI, "bearer", None, 415, "unsupported_media_type"),
        ("POST", "/ag-ui/v1/agents/nobody", "bearer", AG_UI_RUN, 404, "agent_not_found"),
        ("GET", AG_UI, "bearer", None, 405, "method_not_allowed"),
        ("GET", "/ag-ui/v2", None, None, 404, "not_found"),
        ("POST", AI_SDK, None, UI_CHAT, 401, "missing_api_key"),
        ("POST", AI_SDK, "bearer", None, 415, "unsupported_media_type"),
        ("GET", AI_SDK, "bearer", None, 405, "method_not_allowed"),
        ("POST", "/ai-sdk/v1/agents/nobody/chat", "bearer", UI_CHAT, 404, "agent_not_found"),
        ("POST", "/ai-sdk/v1/agents/%00/chat", "bearer", UI_CHAT, 404, "agent_not_found"),
        ("GET", "/ai-sdk/v1/agents/nobody/chat/c/stream", "bearer", None, 404, "agent_not_found"),
        ("GET", f"{AI_SDK}/c/stream", None, None, 401, "missing_api_key"),
        ("GET", f"{AI_SDK}/null/stream", "bearer", None, 400, "invalid_request"),
        ("GET", "/ai-sdk/v2", None, None, 404, "not_found"),
    ],
)
async def test_every_refusal_has_the_shape_of_its_protocol(
    caller: Caller, method: str, path: str, key: str | None, content: bytes | None, status: int, code: str
) -> None:
    headers = {"bearer": caller.bearer, "api-key": {"api-key": caller.key}, None: {}}[key]
    if content is not None:
        headers = {**headers, "Content-Type": "application/json"}
    response = await caller.send(method, path, headers=headers, content=content)
    assert (response.status_code, refusal_of(path, response)[0]) == (status, code)


async def test_keys_are_bearer_or_azures_at_the_openai_api_and_nowhere_else(caller: Caller) -> None:
    ours = await caller.send("POST", CHAT, json=chat(model=caller.agent), headers={"X-Api-Key": caller.key})
    assert (ours.status_code, ours.json()["error"]["code"]) == (401, "missing_api_key")
    assert "Authorization: Bearer" in ours.json()["error"]["message"]
    assert ours.headers["www-authenticate"].startswith("Bearer")
    for headers in ({"Authorization": f"bearer {caller.key}"}, {"api-key": caller.key}):
        assert (await caller.send("GET", "/openai/v1/models", headers=headers)).status_code == 200
    elsewhere = await caller.send("POST", "/v1/chat", json={"message": "hi"}, headers=caller.bearer)
    check_problem(elsewhere, 401, "missing_api_key")


@pytest.mark.parametrize("header", ["X-Conversation-Id", "X-OpenWebUI-Chat-Id"])
@pytest.mark.parametrize(
    "key", ["", "undefined", "null", "None", "[object Object]", "{{CHAT_ID}}", "c-${id}", "x" * 256]
)
async def test_an_invalid_name_for_a_conversation_is_refused(caller: Caller, header: str, key: str) -> None:
    response = await caller.post(CHAT, chat(), **{header: key})
    assert (response.status_code, *refusal_of(CHAT, response)) == (400, "invalid_request", header)
