"""Tools that write: what they write is read back by the others."""

import pytest

from tests.mcp_demo.demo_server import DemoServer

NEW_ADDRESS = {"street": "Seeweg 15", "postal_code": "6020", "city": "Innsbruck", "country": "AT"}


def test_a_cancelled_order_is_cancelled_for_every_tool(own_server: DemoServer) -> None:
    before = own_server.get("get_sales_summary")
    stock = own_server.get("get_product", product_id="PRD-103")["stock"]

    cancelled = own_server.get("cancel_order", order_id="ORD-1032", reason="bought by mistake")

    order = own_server.get("get_order", order_id="ORD-1032")
    after = own_server.get("get_sales_summary")
    assert cancelled["status"] == order["status"] == "cancelled"
    assert cancelled["refund"] == order["refund"] == order["total"] == 528.9
    assert order["closed"]["reason"] == "bought by mistake"
    assert own_server.get("get_product", product_id="PRD-103")["stock"] == stock + 1
    assert after["orders"] == before["orders"] - 1
    assert before["net_revenue"] - after["net_revenue"] == pytest.approx(order["goods"])
    assert own_server.get("track_shipment", order_id="ORD-1032")["order_status"] == "cancelled"


def test_cancelling_again_changes_nothing(own_server: DemoServer) -> None:
    first = own_server.get("cancel_order", order_id="ORD-1031", reason="the first reason")
    order = own_server.get("get_order", order_id="ORD-1031")
    second = own_server.get("cancel_order", order_id="ORD-1031", reason="another reason")

    assert first["changed"] is True
    assert second["changed"] is False
    assert own_server.get("get_order", order_id="ORD-1031") == order


def test_a_new_address_is_where_the_parcel_goes(own_server: DemoServer) -> None:
    first, second = (
        own_server.get("update_shipping_address", order_id="ORD-1030", **NEW_ADDRESS) for _ in range(2)
    )

    assert first["changed"] is True
    assert second["changed"] is False
    assert own_server.get("get_order", order_id="ORD-1030")["shipping_address"] == NEW_ADDRESS
    assert own_server.get("track_shipment", order_id="ORD-1030")["destination"] == "Innsbruck, AT"
    (customer,) = own_server.get("find_customer", query="CUST-005")["customers"]
    assert customer["address"]["city"] == "Prague"


def test_every_call_opens_another_ticket(own_server: DemoServer) -> None:
    concern = {
        "customer_id": "CUST-002",
        "order_id": "ORD-1028",
        "subject": "Deliver to the office",
        "message": "Please ring at number 5.",
        "category": "delivery",
    }
    one, other = (own_server.get("open_support_ticket", **concern) for _ in range(2))

    assert one["ticket_id"] != other["ticket_id"]
    assert own_server.get("get_support_ticket", ticket_id=one["ticket_id"]) == one
    assert one["ticket_id"] in own_server.get("get_order", order_id="ORD-1028")["ticket_ids"]
    (customer,) = own_server.get("find_customer", query="CUST-002")["customers"]
    assert customer["ticket_ids"][-2:] == [one["ticket_id"], other["ticket_id"]]


def test_a_comment_is_added_and_moves_the_ticket(own_server: DemoServer) -> None:
    resolved = own_server.get("get_support_ticket", ticket_id="TCK-501")
    asked = own_server.get("add_ticket_comment", ticket_id="TCK-501", message="The refund has not come.")
    answered = own_server.get(
        "add_ticket_comment", ticket_id="TCK-501", message="It takes two days.", author="support"
    )

    assert resolved["status"] == "resolved"
    assert asked["status"] == "open"
    assert answered["status"] == "waiting"
    assert own_server.get("get_support_ticket", ticket_id="TCK-501") == answered
    assert answered["comments"][:-2] == resolved["comments"]
    assert [comment["author"] for comment in answered["comments"][-2:]] == ["customer", "support"]
