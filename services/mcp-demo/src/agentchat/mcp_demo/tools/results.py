"""Build the JSON objects that several tools return: product cards, periods, euros."""

from typing import Any, Literal

import msgspec

from agentchat.mcp_demo.shop import Shop
from agentchat.mcp_demo.shop.catalogue import Product
from agentchat.mcp_demo.shop.sales import Period

Json = dict[str, Any]
Availability = Literal["in_stock", "low_stock", "out_of_stock"]

CURRENCY = "EUR"
LOW_STOCK = 5


def as_json(record: object) -> Any:
    """Return a record, or a collection of records, as JSON values."""
    return msgspec.to_builtins(record)


def pick(record: msgspec.Struct, *names: str) -> Json:
    """Return some fields of a record as a JSON object."""
    return {name: as_json(getattr(record, name)) for name in names}


def show_card(shop: Shop, product: Product) -> Json:
    """Return a product's summary with its rating and current availability."""
    rating = shop.get_rating(product.product_id)
    return pick(product, "product_id", "name", "brand", "category") | {
        "price": to_euros(product.price_cents),
        "currency": CURRENCY,
        "availability": rate_availability(product.stock),
        "rating": rating.average,
        "reviews": rating.reviews,
    }


def rate_availability(stock: int) -> Availability:
    """Return the availability: out of stock, low (below five) or in stock."""
    if stock == 0:
        return "out_of_stock"
    return "low_stock" if stock < LOW_STOCK else "in_stock"


def show_period(period: Period) -> Json:
    """Return a period as a JSON object."""
    return {"date_from": str(period.start), "date_to": str(period.end), "days": period.days}


def to_euros(cents: int) -> float:
    """Return cents as euros. A float is exact enough, because sums are made in cents."""
    return round(cents / 100, 2)


def is_affordable(product: Product, max_price: float | None) -> bool:
    """Return True if the product costs at most `max_price`, or there is no limit."""
    return max_price is None or product.price_cents <= round(max_price * 100)
