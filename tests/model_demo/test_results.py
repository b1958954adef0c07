"""Results of tools become text, or lead to further calls."""

import json
from typing import Any

import pytest

from tests.model_demo.messages import Ask, Tools, get_text, list_calls


def add_results(
    messages: list[dict[str, Any]], message: dict[str, Any], *results: Any, is_error: bool = False
) -> list[dict[str, Any]]:
    """Return the messages with the calls of `message` and their results."""
    ids = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    blocks = [
        {
            "type": "tool_result",
            "tool_use_id": call_id,
            "content": result if isinstance(result, str) else json.dumps(result),
            "is_error": is_error,
        }
        for call_id, result in zip(ids, results, strict=True)
    ]
    return [
        *messages,
        {"role": "assistant", "content": message["content"]},
        {"role": "user", "content": blocks},
    ]


async def test_results_become_sentences_and_lists(ask: Ask, tools: Tools) -> None:
    asked = [{"role": "user", "content": "Where is ORD-1028?"}]
    result = {
        "order_id": "ORD-1028",
        "status": "in_transit",
        "expected_on": "2026-11-23",
        "total": 288.9,
        "currency": "EUR",
        "gift": False,
        "scans": [{"place": "Utrecht", "at": "2026-11-20T08:30:00Z"}],
    }
    answer = await ask(add_results(asked, await ask(asked, tools=tools), result), tools=tools)
    told = get_text(answer)
    assert told.startswith(
        "**ORD-1028** is **in transit**.\n- Expected on: 23 November 2026\n- Total: €288.90"
    )
    assert "- Gift: no" in told
    assert "**Scans**\n- place Utrecht; at 20 November 2026, 08:30" in told
    assert answer["stop_reason"] == "end_turn"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"error": "There is no order ORD-9999."}, ["There is no order ORD-9999", "check the spelling"]),
        ("Timed out after 30 s", ["Timed out after 30 s", "try again in a moment"]),
        ({"error": {"message": "Already shipped"}}, ["Already shipped"]),
    ],
)
async def test_a_tool_error_says_what_would_help(
    ask: Ask, tools: Tools, result: Any, words: list[str]
) -> None:
    asked = [{"role": "user", "content": "Where is ORD-9999?"}]
    answer = await ask(add_results(asked, await ask(asked, tools=tools), result, is_error=True), tools=tools)
    assert get_text(answer).startswith("Sorry, that did not work: ")
    assert all(word in get_text(answer) for word in words)
    assert list_calls(answer) == []


@pytest.mark.parametrize(
    "result",
    [
        "",
        "Just words.",
        "[" * 900 + "]" * 900,
        "[" * 9000,
        '{"a":' * 300 + "1" + "}" * 300,
        "[]",
        "{}",
        "null",
        "[1, 2]",
        '{"text": "Just words."}',
    ],
)
async def test_any_result_is_answered(ask: Ask, tools: Tools, result: str) -> None:
    asked = [{"role": "user", "content": "Where is ORD-1001?"}]
    answer = await ask(add_results(asked, await ask(asked, tools=tools), result), tools=tools)
    assert answer["stop_reason"] == "end_turn"
    assert get_text(answer)
