"""JSON objects that several tools return: a product in short, a period; and money in euros."""

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
    """Return records of the shop, and what they are within, as JSON values."""
    return msgspec.to_builtins(record)


def pick(record: msgspec.Struct, *names: str) -> Json:
    """Return some fields of a record of the shop as a JSON object."""
    return {name: as_json(getattr(record, name)) for name in names}


def card(shop: Shop, product: Product) -> Json:
    """Return a product in short, with its rating and availability as of now."""
    rating = shop.rating(product.product_id)
    return pick(product, "product_id", "name", "brand", "category") | {
        "price": euros(product.price_cents),
        "currency": CURRENCY,
        "availability": availability(product.stock),
        "rating": rating.average,
        "reviews": rating.reviews,
    }


def availability(stock: int) -> Availability:
    """Return how much there is of a product: nothing, little (below five) or enough."""
    if stock == 0:
        return "out_of_stock"
    return "low_stock" if stock < LOW_STOCK else "in_stock"


def period_view(period: Period) -> Json:
    return {"date_from": str(period.start), "date_to": str(period.end), "days": period.days}


def euros(cents: int) -> float:
    """Return cents as euros; a float is exact enough here, because sums are made in cents."""
    return round(cents / 100, 2)


def is_affordable(product: Product, max_price: float | None) -> bool:
    return max_price is None or product.price_cents <= round(max_price * 100)
