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
    ("Show me order 1044, please.", [("get_order", {"order_id": "ORD-1044"})]),
    ("ORD-1028?", [("get_order", {"order_id": "ORD-1028"})]),
    (
        "Cancel ORD-1030 because it is a double",
        [("cancel_order", {"order_id": "ORD-1030", "reason": "it is a double"})],
    ),
    ("Can I cancel ORD-1030?", [("get_order", {"order_id": "ORD-1030"})]),
    ("Do you have tents under $1,200.50?", [("search_products", {"query": "tents", "max_price": 1200.5})]),
    (
        "I'm looking for a rain jacket that is in stock",
        [("search_products", {"query": "rain jacket", "in_stock_only": True})],
    ),
    ('Search for "down sweater"', [("search_products", {"query": "down sweater"})]),
    ("Find the customer Ada Keller", [("find_customer", {"query": "Ada Keller"})]),
    ("Find the customer ada@example.com", [("find_customer", {"query": "ada@example.com"})]),
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
    ("Order 1027 has not arrived yet!!", [("track_shipment", {"order_id": "ORD-1027"})]),
    ("Please cancel order ORD-1032, I changed my mind", [("cancel_order", {"order_id": "ORD-1032"})]),
    (
        "Change the address of ORD-1030 to Seeweg 14, 6020 Innsbruck, AT",
        [
            (
                "update_shipping_address",
                {
                    "order_id": "ORD-1030",
                    "street": "Seeweg 14",
                    "postal_code": "6020",
                    "city": "Innsbruck",
                    "country": "AT",
                },
            )
        ],
    ),
    (
        "Show me the last 3 orders of CUST-001",
        [("list_customer_orders", {"customer_id": "CUST-001", "limit": 3})],
    ),
    ("Sales per month", [("get_sales_trend", {"interval": "month"})]),
    ("Draw a chart of our sales per day", [("get_sales_trend", {"interval": "day", "chart": True})]),
    (
        "Alternatives to PRD-124 under 50 euros",
        [("find_similar_products", {"product_id": "PRD-124", "max_price": 50})],
    ),
    (
        "What is the difference between PRD-110 and PRD-111?",
        [("compare_products", {"product_ids": ["PRD-110", "PRD-111"]})],
    ),
    ("How do I return something?", [("search_help_articles", {"query": "How do I return something"})]),
    (
        "Add this to TCK-503: please hurry",
        [("add_ticket_comment", {"ticket_id": "TCK-503", "message": "please hurry"})],
    ),
    ("Hello there!", []),
    ("My name is Ada.", []),
    ("Tell me a joke", []),
    ("What is the weather like?", []),
    ("Thank you for your support", []),
]


@pytest.mark.parametrize(("message", "expected"), ASKED, ids=[message for message, _ in ASKED])
async def test_tools_follow_from_the_words_of_the_message(
    ask: Ask, tools: Tools, message: str, expected: list[tuple[str, dict[str, Any]]]
) -> None:
    answer = await ask(message, tools=tools)
    assert list_calls(answer) == expected
    assert answer["stop_reason"] == ("tool_use" if expected else "end_turn")


async def test_parallel_calls_have_ids_of_their_own(ask: Ask, tools: Tools) -> None:
    answer = await ask("Where are ORD-1001 and ORD-1002?", tools=tools)
    ids = {block["id"] for block in answer["content"] if block["type"] == "tool_use"}
    assert len(ids) == 2
    assert all(call_id.startswith("toolu_") for call_id in ids)
    assert get_text(answer) == "Let me look up ORD-1001 and ORD-1002 for you.\n\n"


CHOICES: list[tuple[str, dict[str, Any], tuple[str, dict[str, Any]]]] = [
    (
        "Where are ORD-1001 and ORD-1002?",
        {"type": "auto", "disable_parallel_tool_use": True},
        ("track_shipment", {"order_id": "ORD-1001"}),
    ),
    ("Hello", {"type": "any"}, ("get_order", {"order_id": "ORD-1028"})),
    ("Where is ORD-1003?", {"type": "any"}, ("track_shipment", {"order_id": "ORD-1003"})),
    (
        "The zip is broken, says CUST-004.",
        {"type": "tool", "name": "open_support_ticket"},
        (
            "open_support_ticket",
            {
                "customer_id": "CUST-004",
                "subject": "Zip stuck",
                "message": "The zip is broken, says CUST-004.",
                "category": "other",
            },
        ),
    ),
]


@pytest.mark.parametrize(("message", "choice", "expected"), CHOICES)
async def test_one_call_is_made_as_the_client_chooses(
    ask: Ask, tools: Tools, message: str, choice: dict[str, Any], expected: tuple[str, dict[str, Any]]
) -> None:
    assert list_calls(await ask(message, tools=tools, tool_choice=choice)) == [expected]


async def test_tool_choice_none_calls_nothing(ask: Ask, tools: Tools) -> None:
    answer = await ask("Where is ORD-1003?", tools=tools, tool_choice={"type": "none"})
    assert list_calls(answer) == []
    assert answer["stop_reason"] == "end_turn"
    assert "look that up" in get_text(answer)


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
