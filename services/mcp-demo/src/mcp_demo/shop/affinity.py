"""Which products belong together, counted from the orders and the catalogue; nothing here is learned."""

from collections import Counter

from mcp_demo.shop.catalogue import Product
from mcp_demo.shop.state import Shop


def bought_with(shop: Shop, product_id: str) -> Counter[str]:
    """In how many orders that were not cancelled each other product stood beside this one."""
    together: Counter[str] = Counter()
    for order in shop.orders.values():
        ids = {item.product_id for item in order.items}
        if order.status != "cancelled" and product_id in ids:
            together.update(ids - {product_id})
    return together


def orders_with(shop: Shop, product_id: str) -> int:
    """How many orders that were not cancelled hold the product."""
    return sum(
        order.status != "cancelled" and any(item.product_id == product_id for item in order.items)
        for order in shop.orders.values()
    )


def kept_by(shop: Shop, customer_id: str) -> set[str]:
    """The products that a customer has bought and neither cancelled nor returned."""
    return {
        item.product_id
        for order in shop.orders_of(customer_id)
        if order.status not in ("cancelled", "returned")
        for item in order.items
    }


def similarity(one: Product, other: Product) -> float:
    """From 0 to 1: half for the category, up to 0.3 for shared activities, up to 0.2 for a near price."""
    shared = set(one.activities) & set(other.activities)
    either = set(one.activities) | set(other.activities)
    prices = sorted((one.price_cents, other.price_cents))
    return round(
        0.5 * (one.category == other.category)
        + 0.3 * len(shared) / len(either)
        + 0.2 * prices[0] / prices[1],
        2,
    )
