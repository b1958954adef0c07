"""Which tools are called, with which inputs, and what is asked back."""

from typing import Any

import pytest

from tests.model_demo.messages import Ask, Tools, get_text, list_calls

ASKED = [
    ("Where is ORD-1028?", [("track_shipment", {"order_id": "ORD-1028"})]),
    (
        "Where are ORD-1001 and ord-1002?",
        [("track_shipment", {"order_id": "ORD-1001"}), ("track_shipment", {"order_id": "ORD-1002"})],
    ),
    (
        "Where is ORD-1001 and recommend 3 products to CUST-007",
        [
            ("track_shipment", {"order_id": "ORD-1001"}),
            ("recommend_for_customer", {"customer_id": "CUST-007", "limit": 3}),
        ],
    ),
    ("ORD-1028?", [("get_order", {"order_id": "ORD-1028"})]),
    ("Can I cancel ORD-1030?", [("get_order", {"order_id": "ORD-1030"})]),
    ("Do you have tents under $1,200.50?", [("search_products", {"query": "tents", "max_price": 1200.5})]),
    (
        "I'm looking for a rain jacket that is in stock",
        [("search_products", {"query": "rain jacket", "in_stock_only": True})],
    ),
    ("Find the customer Ada Keller", [("find_customer", {"query": "Ada Keller"})]),
    (
        "Open a ticket for CUST-003: the zip is broken",
        [
            (
                "open_support_ticket",
                {
                    "customer_id": "CUST-003",
                    "subject": "the zip is broken",
                    "message": "the zip is broken",
                    "category": "other",
                },
            )
        ],
    ),
    ("Tell me a joke", []),
    ("Thank you for your support", []),
]


@pytest.mark.parametrize(("message", "expected"), ASKED, ids=[message for message, _ in ASKED])
async def test_tools_follow_from_the_words_of_the_message(
    ask: Ask, tools: Tools, message: str, expected: list[tuple[str, dict[str, Any]]]
) -> None:
    answer = await ask(message, tools=tools)
    assert list_calls(answer) == expected
    assert answer["stop_reason"] == ("tool_use" if expected else "end_turn")


async def test_one_call_at_a_time_where_the_client_wants_that(ask: Ask, tools: Tools) -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    answer = await ask("Where are ORD-1001 and ORD-1002?", tools=tools, tool_choice=choice)
    assert list_calls(answer) == [("track_shipment", {"order_id": "ORD-1001"})]


async def test_tool_choice_tool_calls_that_tool_with_an_input_that_fits(ask: Ask, tools: Tools) -> None:
    answer = await ask(
        "The zip is broken, says CUST-004.",
        tools=tools,
        tool_choice={"type": "tool", "name": "open_support_ticket"},
    )
    assert list_calls(answer) == [
        (
            "open_support_ticket",
            {
                "customer_id": "CUST-004",
                "subject": "Zip stuck",
                "message": "The zip is broken, says CUST-004.",
                "category": "other",
            },
        )
    ]


async def test_what_is_missing_is_asked_for_and_the_answer_is_understood(ask: Ask, tools: Tools) -> None:
    asked = [{"role": "user", "content": "Cancel my order"}]
    question = await ask(asked, tools=tools)
    assert list_calls(question) == []
    assert get_text(question) == ("Gladly: to cancel order I need the order id. Could you tell me?")
    told = [
        *asked,
        {"role": "assistant", "content": get_text(question)},
        {"role": "user", "content": "ORD-1031"},
    ]
    assert list_calls(await ask(told, tools=tools)) == [("cancel_order", {"order_id": "ORD-1031"})]


async def test_an_id_spoken_of_earlier_is_remembered(ask: Ask, tools: Tools) -> None:
    told: list[dict[str, Any]] = [
        {"role": "user", "content": "Show ORD-1028"},
        {"role": "assistant", "content": "Here it is."},
        {"role": "user", "content": "And where is it now?"},
    ]
    assert list_calls(await ask(told, tools=tools)) == [("track_shipment", {"order_id": "ORD-1028"})]
