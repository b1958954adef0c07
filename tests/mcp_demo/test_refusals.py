"""A refused call is a tool error that says what is wrong and what would be right."""

from typing import Any

import pytest

from tests.mcp_demo.demo_server import DemoServer

REFUSED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("get_order", {}, ["order_id", "required"]),
    ("get_order", {"order_id": "1028"}, ["order_id", "^ORD-[0-9]{4}$"]),
    ("get_order", {"order_id": "ORD-9999"}, ["ORD-9999", "from ORD-1001 to ORD-1032"]),
    ("get_order", {"order_id": "ORD-1082"}, ["ORD-1082", "nearest", "ORD-1028"]),
    ("list_customer_orders", {"customer_id": "CUST-001", "limit": 51}, ["limit", "50"]),
    ("cancel_order", {"order_id": "ORD-1028"}, ["shipped", "still processing", "support ticket"]),
    ("get_sales_summary", {"date_from": "2026-11-02", "date_to": "2026-11-01"}, ["later", "swap"]),
    ("get_sales_summary", {"date_to": "2020-01-01"}, ["2026-08-14", "2026-11-20"]),
    ("get_sales_trend", {"interval": "year"}, ["interval", "'day', 'week' or 'month'"]),
    (
        "open_support_ticket",
        {
            "customer_id": "CUST-001",
            "subject": "Lost",
            "message": "m",
            "category": "delivery",
            "order_id": "ORD-1028",
        },
        ["not an order of CUST-001", "ORD-1029"],
    ),
    ("compare_products", {"product_ids": ["PRD-101", "PRD-999"]}, ["There is no product"]),
]


@pytest.mark.parametrize(("tool", "arguments", "words"), REFUSED)
def test_error_says_what_is_wrong(
    server: DemoServer, tool: str, arguments: dict[str, Any], words: list[str]
) -> None:
    text = server.get_refusal(tool, **arguments)
    for each in words:
        assert each in text


def test_refused_call_changes_nothing(server: DemoServer) -> None:
    before = server.get("get_order", order_id="ORD-1028")
    server.get_refusal("cancel_order", order_id="ORD-1028")
    assert server.get("get_order", order_id="ORD-1028") == before
