"""Thinking blocks that come back are checked as models with preserved thinking check them."""

import copy
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from agentchat.model_demo.thinking_blocks import BETA
from tests.model_demo.conftest import HEADERS
from tests.model_demo.messages import GET_ORDER

Body = dict[str, Any]

DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


@pytest.fixture
async def http(address: str) -> Any:
    async with httpx.AsyncClient(base_url=address, headers=HEADERS, timeout=20) as client:
        yield client


async def send(http: httpx.AsyncClient, body: Body, beta: str = "") -> httpx.Response:
    return await http.post("/v1/messages", json=body, headers={"anthropic-beta": beta} if beta else {})


async def hold_conversation(http: httpx.AsyncClient) -> Body:
    """Return a request with two rounds of thinking: what comes back is appended as it came."""
    body: Body = {
        "model": "demo-shop-1?think=1&tool=get_order&rounds=2",
        "max_tokens": 4000,
        "system": "You are Ada.",
        "tools": [GET_ORDER, GET_ORDER | {"name": "other"}],
        "messages": [{"role": "user", "content": "Where is ORD-1001?"}],
    }
    for _ in range(2):
        reply = (await send(http, body)).raise_for_status().json()
        assert reply["content"][0]["type"] == "thinking"
        call = reply["content"][-1]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "{}"}
        body["messages"] += [
            {"role": "assistant", "content": reply["content"]},
            {"role": "user", "content": [result]},
        ]
    return body


def edit(change: Callable[[Body], Any]) -> Callable[[Body], Body]:
    def apply(body: Body) -> Body:
        changed = copy.deepcopy(body)
        change(changed)
        return changed

    return apply


SAME = {
    "unchanged": lambda _: None,
    "cache_control": lambda body: body["messages"][0].update(
        content=[
            {"type": "text", "text": "Where is ORD-1001?", "cache_control": {"type": "ephemeral"}},
        ]
    ),
    "leading thinking left out": lambda body: body["messages"][1]["content"].pop(0),
}
CHANGED: dict[str, tuple[Callable[[Body], Any], list[str]]] = {
    "system": (lambda body: body.update(system="You are Bob."), ["1.content.0", "3.content.0"]),
    "result": (lambda body: body["messages"][2]["content"][0].update(content="[]"), ["3.content.0"]),
    "thinking": (
        lambda body: body["messages"][1]["content"][0].update(thinking="Else"),
        ["1.content.0", "3.content.0"],
    ),
}


@pytest.mark.parametrize("change", SAME.values(), ids=list(SAME))
async def test_unchanged_prefix_is_accepted(http: httpx.AsyncClient, change: Callable[[Body], Any]) -> None:
    body = edit(change)(await hold_conversation(http))
    answer = await send(http, body)
    assert answer.status_code == 200, answer.text
    assert "input_transformations" not in answer.json()


@pytest.mark.parametrize(("change", "paths"), CHANGED.values(), ids=list(CHANGED))
async def test_changed_prefix_is_refused_or_dropped(
    http: httpx.AsyncClient, change: Callable[[Body], Any], paths: list[str]
) -> None:
    body = edit(change)(await hold_conversation(http))
    refused = await send(http, body)
    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith(f"messages.{paths[0]}: Invalid `signature`")
    unasked = await send(http, body | {"thinking": DROP})
    assert unasked.status_code == 400
    assert BETA in unasked.json()["error"]["message"]
    dropped = await send(http, body | {"thinking": DROP}, BETA)
    assert dropped.status_code == 200
    assert [each["path"] for each in dropped.json()["input_transformations"]] == [
        f"messages.{path}" for path in paths
    ]
