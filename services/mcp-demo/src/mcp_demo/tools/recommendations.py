"""Recommendations: what a customer may like, what is like a product, what goes with it."""

from collections import Counter
from typing import Annotated

import msgspec
from msgspec import Meta

from mcp_demo.shop.catalogue import Product
from mcp_demo.shop.state import Shop
from mcp_demo.tools.inputs import Arguments, CustomerId, MaxPrice, ProductId
from mcp_demo.tools.tool import Effect, tool
from mcp_demo.tools.views import ProductCard, card

FewLimit = Annotated[int, Meta(ge=1, le=10, description="How many products to return at most, from 1 to 10.")]


class CustomerQuery(Arguments, frozen=True, kw_only=True):
    customer_id: CustomerId
    max_price: MaxPrice = None
    limit: FewLimit = 3


class Suggestion(msgspec.Struct, frozen=True):
    product: ProductCard
    score: Annotated[float, Meta(description="From 0 to 1; higher fits better.")]
    reason: Annotated[str, Meta(description="Why, in words that can be passed on to the customer.")]


class CustomerSuggestions(msgspec.Struct, frozen=True):
    """Products in stock that the customer does not have yet, best first."""

    customer_id: str
    customer_name: str
    suggestions: list[Suggestion]


@tool("Recommendations", "Recommend for a customer", Effect.READS)
def recommend_for_customer(shop: Shop, arguments: CustomerQuery) -> CustomerSuggestions:
    """Recommend products in stock to a customer from what he or she has bought: what others bought with
    it, and what suits the same activities. Each with a reason. Use it for "what else could I need".
    """
    customer = shop.customer(arguments.customer_id)
    owned = _kept_by(shop, customer.customer_id)
    found = [
        _for_owner(shop, owned, product)
        for product in shop.products.values()
        if product.product_id not in owned and product.stock and _affordable(product, arguments.max_price)
    ]
    return CustomerSuggestions(
        customer_id=customer.customer_id,
        customer_name=customer.name,
        suggestions=sorted(found, key=lambda s: -s.score)[: arguments.limit],
    )


def _for_owner(shop: Shop, owned: set[str], product: Product) -> Suggestion:
    """Half the score is how often it was bought with something owned, half how it suits the same use."""
    bought_with = _partners(shop, product.product_id)
    partner = max(sorted(owned), key=lambda one: bought_with[one], default=None)
    orders = _orders_with(shop, product.product_id)
    together = bought_with[partner] / orders if partner and orders else 0.0
    uses = [activity for one in sorted(owned) for activity in shop.products[one].activities]
    shared = [activity for activity in product.activities if activity in uses]
    suits = len(shared) / len(product.activities)
    if partner and bought_with[partner]:
        reason = f"Often bought together with the {shop.products[partner].name}."
    elif shared:
        reason = f"Made for {shared[0]}, like other things in your orders."
    else:
        reason = "New to your collection."
    return Suggestion(card(shop, product), round(0.5 * together + 0.5 * suits, 2), reason)


class SimilarQuery(Arguments, frozen=True, kw_only=True):
    product_id: ProductId
    max_price: MaxPrice = None
    in_stock_only: Annotated[bool, Meta(description="Leave out what is out of stock.")] = True
    limit: FewLimit = 3


class SimilarProduct(msgspec.Struct, frozen=True):
    product: ProductCard
    similarity: Annotated[float, Meta(description="From 0 to 1: category, activities and price compared.")]
    price_difference: Annotated[float, Meta(description="In EUR against the product asked about.")]


class SimilarProducts(msgspec.Struct, frozen=True):
    """Alternatives to a product, most similar first."""

    product: ProductCard
    similar: list[SimilarProduct]


@tool("Recommendations", "Find similar products", Effect.READS)
def find_similar_products(shop: Shop, arguments: SimilarQuery) -> SimilarProducts:
    """Find alternatives to a product: same kind, same use, near in price. Use it when a product is out
    of stock, too expensive, or to offer a choice.
    """
    product = shop.product(arguments.product_id)
    ranked = sorted(
        (
            (similarity(product, other), other)
            for other in shop.products.values()
            if other.product_id != product.product_id
            and (other.stock or not arguments.in_stock_only)
            and _affordable(other, arguments.max_price)
        ),
        key=lambda entry: (-entry[0], entry[1].product_id),
    )
    return SimilarProducts(
        product=card(shop, product),
        similar=[
            SimilarProduct(
                product=card(shop, other),
                similarity=score,
                price_difference=round((other.price_cents - product.price_cents) / 100, 2),
            )
            for score, other in ranked[: arguments.limit]
        ],
    )


class TogetherQuery(Arguments, frozen=True, kw_only=True):
    product_id: ProductId
    limit: FewLimit = 3


class BoughtTogether(msgspec.Struct, frozen=True):
    product: ProductCard
    orders_together: Annotated[int, Meta(description="Orders that hold both products.")]
    share_percent: Annotated[float, Meta(description="Of the orders with the product asked about.")]


class Companions(msgspec.Struct, frozen=True):
    """What is in the same orders, most frequent first."""

    product: ProductCard
    orders: Annotated[int, Meta(description="Orders that hold the product; cancelled ones do not count.")]
    bought_together: list[BoughtTogether]


@tool("Recommendations", "List what is bought together", Effect.READS)
def list_bought_together(shop: Shop, arguments: TogetherQuery) -> Companions:
    """List the products that customers bought in the same order as a given product, with how often. Use
    it to suggest accessories or a bundle.
    """
    product = shop.product(arguments.product_id)
    orders = _orders_with(shop, product.product_id)
    ranked = sorted(_partners(shop, product.product_id).items(), key=lambda e: (-e[1], e[0]))
    return Companions(
        product=card(shop, product),
        orders=orders,
        bought_together=[
            BoughtTogether(card(shop, shop.products[other]), count, round(100 * count / orders, 1))
            for other, count in ranked[: arguments.limit]
        ],
    )


def _affordable(product: Product, max_price: float | None) -> bool:
    return max_price is None or product.price_cents <= round(max_price * 100)


TOOLS = (recommend_for_customer, find_similar_products, list_bought_together)


def _partners(shop: Shop, product_id: str) -> Counter[str]:
    """In how many orders that were not cancelled each other product was bought with this one."""
    together: Counter[str] = Counter()
    for order in shop.orders.values():
        ids = {item.product_id for item in order.items}
        if order.status != "cancelled" and product_id in ids:
            together.update(ids - {product_id})
    return together


def _orders_with(shop: Shop, product_id: str) -> int:
    """How many orders that were not cancelled hold the product."""
    return sum(
        order.status != "cancelled" and any(item.product_id == product_id for item in order.items)
        for order in shop.orders.values()
    )


def _kept_by(shop: Shop, customer_id: str) -> set[str]:
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
