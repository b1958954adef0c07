"""What a request brings for its run, in every protocol: parameters, a context, instructions."""

import asyncio
from typing import Any

import pytest

from agentchat.contracts import ids
from tests.gateway.client import Client
from tests.gateway.test_ignored_parameters import AG_UI, AI_SDK, COMPLETIONS, RESPONSES, make_body
from tests.gateway.worker import Worker

CHAT = "/v1/chat"
SECRET = "canary-4d1f"
CONTEXT = {"context": {"customer_name": "Ada", "basket": [1, {"sku": "A"}]}}
LABELS = {"title": "A parcel", "metadata": {"channel": "web"}, "external_id": "ticket-4711"}
TOOL = {"name": "show_map", "description": "Show a place", "input_schema": {"type": "object"}}
PARAMETERS = {"parameters": {"temperature": 0.5}}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        CHAT,
        CONTEXT | PARAMETERS | {"instructions": "Be brief."},
        CONTEXT | PARAMETERS | {"instructions": "Be brief.", "prompt": None},
    ),
    (CHAT, LABELS, LABELS),
    (COMPLETIONS, {"metadata": {"shop": "Graz"}}, {"metadata": {"shop": "Graz"}}),
    (RESPONSES, {"metadata": {"shop": "Graz"}}, {"metadata": {"shop": "Graz"}}),
    (
        COMPLETIONS,
        CONTEXT | {"temperature": 0.5, "max_tokens": 9, "max_completion_tokens": 8, "stop": "x"},
        CONTEXT | {"parameters": {"temperature": 0.5, "max_tokens": 8, "stop": "x"}},
    ),
    (
        RESPONSES,
        CONTEXT | {"top_p": 0.5, "max_output_tokens": 7},
        CONTEXT | {"parameters": {"top_p": 0.5, "max_tokens": 7}},
    ),
    (AI_SDK, CONTEXT | PARAMETERS, CONTEXT | PARAMETERS),
    (AG_UI, {"forwardedProps": CONTEXT | PARAMETERS}, CONTEXT | PARAMETERS),
    (CHAT, {"on_busy": "steer"}, {"on_busy": "steer"}),
    (CHAT, {"context": {}, "parameters": {}}, {"context": None, "parameters": None, "instructions": None}),
]


def send(client: Client, path: str, message: str, extra: dict[str, Any], **named: str) -> "asyncio.Task[Any]":
    key = client.headers["X-Api-Key"]
    headers = (client.headers if path == CHAT else {"Authorization": f"Bearer {key}"}) | named
    body = {"message": message} if path == CHAT else make_body(path, client, message)
    url = client.url + path.replace("{agent}", client.headers["X-Agent-Id"])
    return asyncio.create_task(client.http.post(url, json=body | extra, headers=headers))


@pytest.mark.parametrize(("path", "extra", "expected"), CASES)
async def test_options_reach_the_worker(
    client: Client, worker: Worker, path: str, extra: dict[str, Any], expected: dict[str, Any]
) -> None:
    message = ids.make_id()
    asked = send(client, path, message, extra)
    turn = await worker.next(message)
    assert {name: getattr(turn.request, name) for name in expected} == expected
    await turn.answer()
    assert (await asked).status_code == 200


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, RESPONSES, AI_SDK, AG_UI])
async def test_header_says_what_a_message_does_to_a_run(client: Client, worker: Worker, path: str) -> None:
    message = ids.make_id()
    asked = send(client, path, message, {}, **{"X-On-Busy": "interrupt"})
    turn = await worker.next(message)
    assert turn.request.on_busy == "interrupt"
    await turn.answer()
    assert (await asked).status_code == 200


@pytest.mark.parametrize(("extra", "named"), [({"on_busy": "later"}, {}), ({}, {"X-On-Busy": "later"})])
async def test_what_a_message_may_do_to_a_run_is_named(
    client: Client, extra: dict[str, Any], named: dict[str, str]
) -> None:
    response = await send(client, CHAT, "hi", extra, **named)
    assert response.status_code == 400
    (error,) = response.json()["errors"]
    assert error["field"] in {*extra, *named}
    assert "one of queue, refuse, interrupt, steer" in response.json()["detail"]


@pytest.mark.parametrize(
    ("extra", "field"),
    [
        ({"parameters": {"temperature": 2.1}}, "parameters.temperature"),
        ({"parameters": {"max_tokens": 0}}, "parameters.max_tokens"),
        ({"parameters": {"stop": ["a", "b", "c", "d", "e"]}}, "parameters.stop"),
        ({"parameters": {"reasoning_effort": "most"}}, "parameters.reasoning_effort"),
        ({"parameters": {"temprature": 1}}, "parameters.temprature"),
        ({"context": "Ada"}, "context"),
        ({"context": {"a": "x" * 4090}}, "context"),
        ({"context": {"a": ["\x00"]}}, "context.a"),
        ({"client_tools": [TOOL, TOOL]}, "client_tools"),
        ({"client_tools": [TOOL | {"name": f"t{number}"} for number in range(65)]}, "client_tools"),
        ({"client_tools": [TOOL | {"input_schema": {"type": "array"}}]}, "client_tools[0].input_schema"),
        ({"client_tools": [TOOL], "tool_choice": "other"}, "tool_choice"),
        ({"secrets": {"a b": SECRET}}, "secrets"),
        ({"secrets": {"a": f"{SECRET}\n"}}, "secrets.a"),
        ({"secrets": {"a": SECRET * 400}}, "secrets.a"),
        ({"secrets": {f"s{number}": SECRET for number in range(9)}}, "secrets"),
        ({"secrets": {"a": [SECRET]}}, "secrets[...]"),
    ],
)
async def test_wrong_option_is_named(client: Client, extra: dict[str, Any], field: str) -> None:
    response = await client.chat(**extra)
    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == field
    assert SECRET not in response.text
