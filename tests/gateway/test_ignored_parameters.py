"""X-Ignored-Parameters: the fields of a body that have no effect, in every protocol."""

import asyncio
from typing import Any

import pytest

from agentchat.contracts import ids
from tests.gateway.client import Client
from tests.gateway.worker import Worker

COMPLETIONS, RESPONSES = "/openai/v1/chat/completions", "/openai/v1/responses"
AI_SDK, AG_UI = "/ai-sdk/v1/agents/{agent}/chat", "/ag-ui/v1/agents/{agent}"

SAMPLING = {"temperature": 0, "top_p": 1, "seed": 7, "user": "ada", "metadata": {"a": "b"}}
CASES: list[tuple[str, dict[str, Any], str | None]] = [
    (COMPLETIONS, {}, None),
    (COMPLETIONS, SAMPLING, "top_p, seed"),
    (COMPLETIONS, {"max_tokens": 5, "stop": ["x"], "store": False}, "store"),
    (COMPLETIONS, {"tools": [{"type": "web_search"}], "tool_choice": "auto"}, "tools"),
    (COMPLETIONS, {"tools": [], "stop": None, "user": "", "metadata": {}}, None),
    (COMPLETIONS, {"n": 1, "stream_options": {"include_usage": True}, "logprobs": False}, None),
    (COMPLETIONS, {"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
    (COMPLETIONS, {"a,b": 1, "x\r\ny": 1, "ä": 1, "z" * 65: 1, "fine": 1}, "fine"),
    (RESPONSES, SAMPLING, "seed, top_p"),
    (
        RESPONSES,
        {"max_output_tokens": 9, "reasoning": {"effort": "low", "summary": "auto"}},
        "reasoning.summary, reasoning.effort",
    ),
    (RESPONSES, {"text": {"verbosity": "low", "format": {"type": "text"}}}, "text.verbosity"),
    (RESPONSES, {"store": True, "instructions": "Be brief."}, None),
    (AI_SDK, {"id": "c", "trigger": "submit-message"}, None),
    (AI_SDK, {"messageId": "m1", "model": "gpt", "tools": {"a": {}}}, "messageId, model, tools"),
    (AG_UI, {"tools": [], "state": {}, "forwardedProps": {}, "context": []}, None),
    (AI_SDK, {"parameters": {"top_p": 0.5, "seed": 1}}, "parameters.seed"),
    (
        AG_UI,
        {"forwardedProps": {"parameters": {"seed": 1}, "theme": "dark"}},
        "forwardedProps.theme, forwardedProps.parameters.seed",
    ),
    (AG_UI, {"tools": [{"name": "a"}], "state": {"a": 1}, "parentRunId": "r"}, "state, parentRunId"),
]


def make_body(path: str, client: Client, message: str) -> dict[str, Any]:
    shown = {"role": "user", "content": message}
    bodies: dict[str, dict[str, Any]] = {
        COMPLETIONS: {"model": client.headers["X-Agent-Id"], "messages": [shown]},
        RESPONSES: {"model": client.headers["X-Agent-Id"], "input": message},
        AI_SDK: {"messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": message}]}]},
        AG_UI: {"threadId": message, "runId": message, "messages": [{"id": "1", **shown}]},
    }
    return bodies[path]


@pytest.mark.parametrize(("path", "extra", "expected"), CASES)
async def test_ignored_parameters_are_named_in_a_header(
    client: Client, worker: Worker, path: str, extra: dict[str, Any], expected: str | None
) -> None:
    message = ids.make_id()
    asked = asyncio.create_task(
        client.http.post(
            client.url + path.replace("{agent}", client.headers["X-Agent-Id"]),
            json=make_body(path, client, message) | extra,
            headers={"Authorization": f"Bearer {client.headers['X-Api-Key']}"},
        )
    )
    await (await worker.next(message)).answer()
    response = await asked
    assert response.status_code == 200
    assert response.headers.get("x-ignored-parameters") == expected


async def test_refused_request_names_ignored_parameters_too(client: Client) -> None:
    body = {"model": client.headers["X-Agent-Id"], "messages": [], "logit_bias": {"1": 1}}
    headers = {"Authorization": f"Bearer {client.headers['X-Api-Key']}"}
    response = await client.http.post(client.url + COMPLETIONS, json=body, headers=headers)
    assert (response.status_code, response.headers["x-ignored-parameters"]) == (400, "logit_bias")


async def test_own_api_refuses_unknown_fields(client: Client) -> None:
    response = await client.chat(temperature=1)
    assert (response.status_code, response.headers.get("x-ignored-parameters")) == (400, None)
