"""What people ask the demo's shop assistant, with the tools of the demo's tool server."""

from typing import Any

import pytest

from tests.model_demo.messages import Ask, Tools, calls

pytestmark = pytest.mark.requirement("MODEL-DEMO")


QUESTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("How many of PRD-124 are in stock?", "get_product", {"product_id": "PRD-124"}),
    ("Hello! How is ORD-1027 doing?", "get_order", {"order_id": "ORD-1027"}),
    ("When will ORD-1029 arrive?", "track_shipment", {"order_id": "ORD-1029"}),
    ("My order 1027 has not arrived yet!!", "track_shipment", {"order_id": "ORD-1027"}),
    ("Can you help me with my order ORD-1004?", "get_order", {"order_id": "ORD-1004"}),
    ("Please cancel order ORD-1032, I changed my mind", "cancel_order", {"order_id": "ORD-1032"}),
    (
        "Change the address of ORD-1030 to Seeweg 14, 6020 Innsbruck, AT",
        "update_shipping_address",
        {
            "order_id": "ORD-1030",
            "street": "Seeweg 14",
            "postal_code": "6020",
            "city": "Innsbruck",
            "country": "AT",
        },
    ),
    (
        "Show me the last 3 orders of CUST-001",
        "list_customer_orders",
        {"customer_id": "CUST-001", "limit": 3},
    ),
    ("Find customer Keller", "find_customer", {"query": "Keller"}),
    ("Sales per month since September", "get_sales_trend", {"date_from": "2026-09-01", "interval": "month"}),
    (
        "How much revenue did we make in October 2026?",
        "get_sales_summary",
        {"date_from": "2026-10-01", "date_to": "2026-10-31"},
    ),
    ("Top 5 products by revenue", "rank_products", {"metric": "revenue", "limit": 5}),
    ("What is low in stock?", "get_inventory_report", {}),
    ("What would suit customer CUST-001?", "recommend_for_customer", {"customer_id": "CUST-001"}),
    (
        "Alternatives to PRD-124 under 50 euros",
        "find_similar_products",
        {"product_id": "PRD-124", "max_price": 50},
    ),
    ("What goes well with PRD-103?", "list_bought_together", {"product_id": "PRD-103"}),
    (
        "What is the difference between PRD-110 and PRD-111?",
        "compare_products",
        {"product_ids": ["PRD-110", "PRD-111"]},
    ),
    ("What do people say about PRD-101?", "list_product_reviews", {"product_id": "PRD-101"}),
    (
        "I need a backpack for hiking under $150",
        "search_products",
        {"category": "backpacks", "activity": "hiking", "max_price": 150},
    ),
    ("Which jackets are waterproof?", "search_products", {"query": "jackets waterproof"}),
    ("How do I return something?", "search_help_articles", {"query": "return", "topic": "return"}),
    ("Do you ship to Switzerland?", "search_help_articles", {"query": "ship Switzerland"}),
    ("Show ticket TCK-502", "get_support_ticket", {"ticket_id": "TCK-502"}),
    (
        "Add this to TCK-503: please hurry",
        "add_ticket_comment",
        {"ticket_id": "TCK-503", "message": "please hurry"},
    ),
]


@pytest.mark.parametrize(("question", "name", "given"), QUESTIONS, ids=[asked for asked, _, _ in QUESTIONS])
async def test_a_question_finds_its_tool(
    ask: Ask, tools: Tools, question: str, name: str, given: dict[str, Any]
) -> None:
    assert calls(await ask(question, tools=tools)) == [(name, given)]


@pytest.mark.parametrize("said", ["Which one is cheaper?", "What's the capital of France?", "Thanks", "Hi"])
async def test_other_talk_finds_none(ask: Ask, tools: Tools, said: str) -> None:
    assert [block["type"] for block in (await ask(said, tools=tools))["content"]] == ["text"]
