"""Bad arguments: a tool error, which says what is wrong and what would be right."""

from typing import Any

import pytest

from tests.mcp_demo.demo_server import DemoServer

REFUSED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("get_order", {}, ["order_id", "missing", "ORD-1028"]),
    ("get_order", {"order_id": "1028"}, ['"1028"', "^ORD-[0-9]{4}$", "ORD-1028"]),
    ("get_order", {"order_id": "ORD-1028\n"}, ['"ORD-1028\\n"', "^ORD-[0-9]{4}$"]),
    ("get_order", {"order_id": 1028}, ["1028", "must be a string"]),
    ("get_order", {"order_id": None}, ["null", "must be a string"]),
    ("get_order", {"order_id": "ORD-1001", "verbose": True}, ["verbose", "takes order_id"]),
    ("get_order", {"orderId": "ORD-1001"}, ["orderId", "Did you mean order_id?"]),
    ("get_order", {"order_id": "ORD-9999"}, ["ORD-9999", "from ORD-1001 to ORD-1032"]),
    ("get_order", {"order_id": "ORD-1082"}, ["ORD-1082", "nearest", "ORD-1028"]),
    ("track_shipment", {"order_id": "ORD-0000"}, ["There is no order"]),
    ("list_customer_orders", {"customer_id": "CUST-099"}, ["There is no customer", "CUST-012"]),
    (
        "list_customer_orders",
        {"customer_id": "CUST-001", "status": "lost"},
        ["lost", "delivered, processing"],
    ),
    ("list_customer_orders", {"customer_id": "CUST-001", "limit": 0}, ["limit", "0", ">= 1"]),
    ("list_customer_orders", {"customer_id": "CUST-001", "limit": 51}, ["limit", "51", "<= 50"]),
    ("list_customer_orders", {"customer_id": "CUST-001", "limit": 1.5}, ["limit", "1.5", "an integer"]),
    ("list_customer_orders", {"customer_id": "CUST-001", "limit": True}, ["limit", "true", "an integer"]),
    ("cancel_order", {"order_id": "ORD-1028"}, ["shipped", "still processing", "support ticket"]),
    ("cancel_order", {"order_id": "ORD-1001"}, ["delivered"]),
    (
        "update_shipping_address",
        {"order_id": "ORD-1030", "street": "A 1", "postal_code": "11", "city": "B"},
        ["country", "missing", "nothing was changed", "AT"],
    ),
    ("get_sales_summary", {"date_from": "yesterday"}, ["date_from", "YYYY-MM-DD"]),
    ("get_sales_summary", {"date_from": "2026-02-30"}, ["date_from", "YYYY-MM-DD"]),
    ("get_sales_summary", {"date_from": "2026-11-02", "date_to": "2026-11-01"}, ["later", "swap"]),
    ("get_sales_summary", {"date_to": "2020-01-01"}, ["2026-08-14", "2026-11-20"]),
    ("get_sales_trend", {"date_from": "2027-01-01"}, ["on record"]),
    ("get_sales_trend", {"interval": "year"}, ["interval", "day, month, week"]),
    ("rank_products", {"category": "boats"}, ["boats", "backpacks, clothing"]),
    ("recommend_for_customer", {"customer_id": "CUST-001", "max_price": 0}, ["max_price", "> 0"]),
    ("recommend_for_customer", {"customer_id": "CUST-001", "max_price": "cheap"}, ["max_price", "a number"]),
    ("find_similar_products", {"product_id": "PRD-999"}, ["There is no product", "PRD-101 to PRD-126"]),
    ("list_bought_together", {"product_id": "boots"}, ["boots", "PRD-113"]),
    ("find_customer", {"query": ""}, ["query", ">= 1"]),
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
    ("get_support_ticket", {"ticket_id": "TCK-999"}, ["There is no ticket", "TCK-501"]),
    ("add_ticket_comment", {"ticket_id": "TCK-502", "message": "x" * 4001}, ["message", "<= 4000"]),
    ("compare_products", {"product_ids": ["PRD-101"]}, ["product_ids", ">= 2"]),
    ("compare_products", {"product_ids": "PRD-101"}, ["product_ids", "an array"]),
    ("compare_products", {"product_ids": ["PRD-101", "tent"]}, ["product_ids[1]", "PRD-109"]),
    ("compare_products", {"product_ids": ["PRD-101", "PRD-999"]}, ["There is no product"]),
]


@pytest.mark.parametrize(("tool", "arguments", "said"), REFUSED)
def test_the_error_says_what_is_wrong(
    server: DemoServer, tool: str, arguments: dict[str, Any], said: list[str]
) -> None:
    text = server.refusal(tool, **arguments)

    for words in said:
        assert words in text
    assert len(text) < 400


def test_a_long_wrong_value_is_not_sent_back_whole(server: DemoServer) -> None:
    assert len(server.refusal("get_order", order_id="x" * 100_000)) < 300
    assert len(server.refusal("get_order", **{"x" * 100_000: 1})) < 300


def test_a_refused_call_changes_nothing(server: DemoServer) -> None:
    before = server.get("get_order", order_id="ORD-1028")
    server.refusal("cancel_order", order_id="ORD-1028")

    assert server.get("get_order", order_id="ORD-1028") == before
