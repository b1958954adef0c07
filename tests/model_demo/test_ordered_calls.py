"""Tools called because a model name asks for it: the same one round after round, many at once, broken."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.model_demo.messages import GET_ORDER, Ask, calls

pytestmark = pytest.mark.requirement("MODEL-DEMO-CONTROLS")


async def test_a_named_tool_is_called_with_the_given_input(ask: Ask) -> None:
    model = f"demo-echo?tool=get_order&input={quote(json.dumps({'order_id': 'ORD-7'}))}"
    told = await ask("Hello", model=model, tools=[GET_ORDER])
    assert calls(told) == [("get_order", {"order_id": "ORD-7"})]
    assert told["stop_reason"] == "tool_use"


async def test_without_an_input_the_message_gives_it(ask: Ask) -> None:
    told = await ask("Do it with ORD-1234", model="demo-shop-1?tool=get_order", tools=[GET_ORDER])
    assert calls(told) == [("get_order", {"order_id": "ORD-1234"})]


async def test_a_tool_is_called_for_so_many_rounds(ask: Ask) -> None:
    model = "demo-echo?tool=get_order&rounds=3"
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    seen: set[str] = set()
    for _ in range(3):
        told = await ask(messages, model=model, tools=[GET_ORDER])
        assert told["stop_reason"] == "tool_use"
        call_id = told["content"][0]["id"]
        seen.add(call_id)
        result = {"type": "tool_result", "tool_use_id": call_id, "content": "{}"}
        messages += [{"role": "assistant", "content": told["content"]}, {"role": "user", "content": [result]}]
    assert len(seen) == 3
    last = await ask(messages, model=model, tools=[GET_ORDER])
    assert last["stop_reason"] == "end_turn"
    assert last["content"] == [{"type": "text", "text": "Hello"}]


async def test_no_round_is_made_where_tools_are_forbidden(ask: Ask) -> None:
    told = await ask(
        "Hello", model="demo-echo?tool=get_order&rounds=99", tools=[GET_ORDER], tool_choice={"type": "none"}
    )
    assert told["content"] == [{"type": "text", "text": "Hello"}]
