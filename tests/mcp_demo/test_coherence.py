"""The same ids, names, amounts and stars, wherever they are told."""

import pytest

from agentchat.mcp_demo.shop import Shop
from tests.mcp_demo.demo_server import DemoServer

ALL = {"date_from": "2026-08-14", "date_to": "2026-11-20"}


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
