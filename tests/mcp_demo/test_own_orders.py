"""A call that names its user, `_meta["agentchat/user_id"]`, gets that customer's orders only."""

from typing import Any

import pytest

from tests.mcp_demo.demo_server import DemoServer

ADDRESS = {"street": "Seeweg 14", "postal_code": "6020", "city": "Innsbruck", "country": "AT"}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("get_order", {"order_id": "ORD-1028"}),
    ("track_shipment", {"order_id": "ORD-1028"}),
    ("cancel_order", {"order_id": "ORD-1030"}),
    ("update_shipping_address", {"order_id": "ORD-1030", **ADDRESS}),
    ("list_customer_orders", {"customer_id": "CUST-002"}),
]


def call_as(server: DemoServer, user: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments, "_meta": {"agentchat/user_id": user}}
    result: dict[str, Any] = server.call_rpc("tools/call", params)["result"]
    return result


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
@pytest.mark.parametrize("user", ["CUST-001", "nobody"])
def test_foreign_order_does_not_exist(
    server: DemoServer, user: str, tool: str, arguments: dict[str, Any]
) -> None:
    result = call_as(server, user, tool, arguments)
    assert result["isError"] is True
    assert "There is no" in result["content"][0]["text"]


def test_own_orders_are_shown(server: DemoServer) -> None:
    listed = call_as(server, "CUST-001", "list_customer_orders", {"customer_id": "CUST-001"})
    orders = [each["order_id"] for each in listed["structuredContent"]["orders"]]
    assert "ORD-1001" in orders
    for tool in ("get_order", "track_shipment"):
        assert call_as(server, "CUST-001", tool, {"order_id": "ORD-1001"})["isError"] is False
