"""The same ids, names, amounts and stars, wherever they are told."""

from itertools import pairwise

import pytest

from agentchat.mcp_demo.shop import Shop
from agentchat.mcp_demo.shop.calendar import NOW, OPENED
from tests.mcp_demo.demo_server import DemoServer

ALL = {"date_from": "2026-08-14", "date_to": "2026-11-20"}


def test_records_point_only_to_records_that_are_there(shop: Shop) -> None:
    for order in shop.orders.values():
        assert order.customer_id in shop.customers
        assert all(item.product_id in shop.products and item.quantity > 0 for item in order.items)
    for review in shop.reviews:
        order = shop.orders[review.order_id]
        assert order.shipment is not None
        assert order.shipment.delivered_on is not None
        assert order.shipment.delivered_on < review.written_on <= NOW.date()
        assert review.product_id in [item.product_id for item in order.items]
    for ticket in shop.tickets.values():
        assert ticket.customer_id in shop.customers
        assert ticket.order_id is None or shop.orders[ticket.order_id].customer_id == ticket.customer_id
        assert all(one.at <= other.at for one, other in pairwise(ticket.comments))


def test_the_dates_of_an_order_follow_each_other(shop: Shop) -> None:
    for order in shop.orders.values():
        assert order.placed_at.date() >= OPENED
        assert order.placed_at <= NOW
        assert (order.shipment is not None) is (order.status in ("shipped", "delivered", "returned"))
        assert (order.closed is not None) is (order.status in ("cancelled", "returned"))
        if order.shipment is not None:
            assert order.placed_at.date() <= order.shipment.shipped_on <= order.shipment.expected_on
            assert (order.shipment.delivered_on is None) is (order.status == "shipped")
        if order.closed is not None and order.shipment is not None:
            assert order.shipment.delivered_on is not None
            assert order.shipment.delivered_on < order.closed.on <= NOW.date()


def test_sales_figures_are_the_sums_of_the_orders(server: DemoServer, shop: Shop) -> None:
    orders = [server.get("get_order", order_id=order_id) for order_id in shop.orders]
    sold = [order for order in orders if order["status"] != "cancelled"]
    came_back = [order["goods"] for order in sold if order["status"] == "returned"]
    summary = server.get("get_sales_summary", **ALL)

    assert summary["orders"] == len(sold)
    assert summary["units"] == sum(item["quantity"] for order in sold for item in order["items"])
    assert summary["gross_revenue"] == pytest.approx(sum(order["goods"] for order in sold))
    assert summary["returned_revenue"] == pytest.approx(sum(came_back))
    assert summary["net_revenue"] == pytest.approx(summary["gross_revenue"] - summary["returned_revenue"])


@pytest.mark.parametrize("interval", ["day", "week", "month"])
def test_the_trend_and_the_ranking_add_up_to_the_summary(server: DemoServer, interval: str) -> None:
    summary = server.get("get_sales_summary", **ALL)
    points = server.get("get_sales_trend", interval=interval, **ALL)["points"]
    ranked = server.get("rank_products", limit=50, **ALL)["products"]
    by_category = summary["by_category"]

    net = pytest.approx(summary["net_revenue"])
    assert sum(point["net_revenue"] for point in points) == net
    assert sum(point["orders"] for point in points) == summary["orders"]
    assert sum(product["net_revenue"] for product in ranked) == net
    assert sum(category["net_revenue"] for category in by_category) == net
    assert points[0]["date_from"] == ALL["date_from"]
    assert points[-1]["date_to"] == ALL["date_to"]


def test_a_customer_is_the_same_everywhere(server: DemoServer, shop: Shop) -> None:
    for customer_id in shop.customers:
        (customer,) = server.get("find_customer", query=customer_id)["customers"]
        listed = server.get("list_customer_orders", customer_id=customer_id, limit=50)

        assert customer["order_ids"] == [order["order_id"] for order in listed["orders"]]
        assert (
            server.get("recommend_for_customer", customer_id=customer_id)["customer_name"] == customer["name"]
        )
        for ticket_id in customer["ticket_ids"]:
            assert server.get("get_support_ticket", ticket_id=ticket_id)["customer_name"] == customer["name"]
        assert server.get("find_customer", query=customer["email"])["customers"] == [customer]


def test_a_product_is_the_same_everywhere(server: DemoServer, shop: Shop) -> None:
    stock = {line["product_id"]: line for line in server.get("get_inventory_report")["products"]}
    found = {card["product_id"]: card for card in server.get("search_products", limit=50)["products"]}
    assert set(stock) == set(found) == set(shop.products)

    for product_id, card in found.items():
        whole = server.get("get_product", product_id=product_id)
        reviews = server.get("list_product_reviews", product_id=product_id, limit=50)
        stars = [review["stars"] for review in reviews["reviews"]]

        assert whole["product"] == reviews["product"] == card
        assert whole["stock"] == stock[product_id]["stock"]
        assert card["availability"] == stock[product_id]["availability"]
        assert card["reviews"] == reviews["matching"] == len(stars)
        assert card["rating"] == (pytest.approx(sum(stars) / len(stars), abs=0.051) if stars else None)


def test_an_order_and_its_parcel_agree(server: DemoServer, shop: Shop) -> None:
    for order_id in shop.orders:
        order, parcel = (server.get(tool, order_id=order_id) for tool in ("get_order", "track_shipment"))

        assert parcel["order_status"] == order["status"]
        assert parcel["destination"].startswith(order["shipping_address"]["city"])
        assert order["total"] == pytest.approx(
            sum(i["line_total"] for i in order["items"]) + order["delivery"]
        )
        if order["shipment"] is None:
            assert parcel["state"] == "not_shipped"
            assert parcel["history"] == []
        else:
            shared = ("carrier", "tracking_number", "state", "expected_on", "delivered_on")
            assert {name: parcel[name] for name in shared} == {
                name: order["shipment"][name] for name in shared
            }
            instants = [scan["at"] for scan in parcel["history"]]
            assert instants == sorted(instants)


def test_recommendations_can_be_bought_and_are_new_to_the_customer(server: DemoServer, shop: Shop) -> None:
    for customer_id in shop.customers:
        kept = {
            item.product_id
            for order in shop.list_orders(customer_id)
            if order.status not in ("cancelled", "returned")
            for item in order.items
        }
        suggestions = server.get("recommend_for_customer", customer_id=customer_id, limit=10)["suggestions"]

        assert len(suggestions) == 10
        assert all(one["product"]["availability"] != "out_of_stock" for one in suggestions)
        assert kept.isdisjoint(one["product"]["product_id"] for one in suggestions)
        scores = [one["score"] for one in suggestions]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("rain jacket", "PRD-117"),
        ("tents for two", "PRD-102"),
        ("Headlamp", "PRD-124"),
        ("winter sleeping bag", "PRD-105"),
        ("trail running shoes", "PRD-115"),
    ],
)
def test_a_search_in_plain_words_finds_the_product(server: DemoServer, query: str, first: str) -> None:
    assert server.get("search_products", query=query)["products"][0]["product_id"] == first


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("how long can I return shoes?", "HLP-02"),
        ("Can I still cancel my order?", "HLP-03"),
        ("change delivery address", "HLP-04"),
        ("which payment methods do you take", "HLP-06"),
        ("what is a gold customer", "HLP-08"),
    ],
)
def test_a_question_finds_the_help_page(server: DemoServer, query: str, first: str) -> None:
    assert server.get("search_help_articles", query=query)["articles"][0]["article_id"] == first
