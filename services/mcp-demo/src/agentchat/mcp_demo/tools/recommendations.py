"""Define the tools of Recommendations: for a customer, similar, bought together."""

from collections import Counter

from agentchat.mcp_demo.shop import Shop
from agentchat.mcp_demo.shop.catalogue import Product
from agentchat.mcp_demo.tools.category import Category
from agentchat.mcp_demo.tools.results import Json, is_affordable, show_card
from agentchat.mcp_demo.tools.tool_parameters import CustomerId, FewLimit, InStockOnly, MaxPrice, ProductId


def add_tools(category: Category, shop: Shop) -> None:
    """Add the tools of this category."""

    @category.add_reader("Recommend for a customer")
    async def recommend_for_customer(
        customer_id: CustomerId, max_price: MaxPrice = None, limit: FewLimit = 3
    ) -> Json:
        """Recommend products in stock to a customer, each with a reason.

        From the customer's orders: what others bought with it, and what suits the same activities. Use it
        for "what else could I need".
        """
        customer = shop.get_customer(customer_id)
        owned = _list_kept_products(shop, customer_id)
        suggestions = [
            _suggest(shop, owned, product)
            for product in shop.products.values()
            if product.product_id not in owned and product.stock and is_affordable(product, max_price)
        ]
        suggestions.sort(key=lambda each: -each["score"])
        return {
            "customer_id": customer_id,
            "customer_name": customer.name,
            "suggestions": suggestions[:limit],
        }

    @category.add_reader("Find similar products")
    async def find_similar_products(
        product_id: ProductId,
        max_price: MaxPrice = None,
        in_stock_only: InStockOnly = True,
        limit: FewLimit = 3,
    ) -> Json:
        """Find alternatives to a product: same kind, same use, near in price.

        Use it when a product is out of stock or too expensive, or to offer a choice.
        """
        product = shop.get_product(product_id)
        ranked = sorted(
            (
                (-_compare(product, other), other.product_id, other)
                for other in shop.products.values()
                if other.product_id != product_id
                and (other.stock or not in_stock_only)
                and is_affordable(other, max_price)
            ),
        )
        similar = [
            {
                "product": show_card(shop, other),
                "similarity": -score,
                "price_difference": round((other.price_cents - product.price_cents) / 100, 2),
            }
            for score, _, other in ranked[:limit]
        ]
        return {"product": show_card(shop, product), "similar": similar}

    @category.add_reader("List what is bought together")
    async def list_bought_together(product_id: ProductId, limit: FewLimit = 3) -> Json:
        """List the products that customers bought together with a product, with how often.

        Use it to suggest accessories or a bundle.
        """
        product = shop.get_product(product_id)
        orders = _count_orders_with(shop, product_id)
        ranked = sorted(_count_bought_with(shop, product_id).items(), key=lambda entry: (-entry[1], entry[0]))
        together = [
            {
                "product": show_card(shop, shop.products[other]),
                "orders_together": count,
                "share_percent": round(100 * count / orders, 1),
            }
            for other, count in ranked[:limit]
        ]
        return {"product": show_card(shop, product), "orders": orders, "bought_together": together}


def _suggest(shop: Shop, owned: set[str], product: Product) -> Json:
    """Score a product by how often it was bought with owned ones, and by shared uses."""
    bought_with = _count_bought_with(shop, product.product_id)
    partner = max(sorted(owned), key=lambda one: bought_with[one], default=None)
    orders = _count_orders_with(shop, product.product_id)
    together = bought_with[partner] / orders if partner and orders else 0.0
    uses = [activity for one in sorted(owned) for activity in shop.products[one].activities]
    shared = [activity for activity in product.activities if activity in uses]
    if partner and bought_with[partner]:
        reason = f"Often bought together with the {shop.products[partner].name}."
    elif shared:
        reason = f"Made for {shared[0]}, like other things in your orders."
    else:
        reason = "New to your collection."
    score = round(0.5 * together + 0.5 * len(shared) / len(product.activities), 2)
    return {"product": show_card(shop, product), "score": score, "reason": reason}


def _count_orders_with(shop: Shop, product_id: str) -> int:
    """Count the orders that hold a product and were not cancelled."""
    return sum(
        order.status != "cancelled" and product_id in (item.product_id for item in order.items)
        for order in shop.orders.values()
    )


def _count_bought_with(shop: Shop, product_id: str) -> Counter[str]:
    """Count for each other product the orders, not cancelled, that hold it and this one."""
    together: Counter[str] = Counter()
    for order in shop.orders.values():
        products = {item.product_id for item in order.items}
        if order.status != "cancelled" and product_id in products:
            together.update(products - {product_id})
    return together


def _list_kept_products(shop: Shop, customer_id: str) -> set[str]:
    """Return the products that a customer has bought and neither cancelled nor returned."""
    return {
        item.product_id
        for order in shop.list_orders(customer_id)
        if order.status not in ("cancelled", "returned")
        for item in order.items
    }


def _compare(one: Product, other: Product) -> float:
    """Compare products: 0.5 for category, 0.3 for shared activities, 0.2 for a near price."""
    shared = set(one.activities) & set(other.activities)
    either = set(one.activities) | set(other.activities)
    lower, higher = sorted((one.price_cents, other.price_cents))
    score = 0.5 * (one.category == other.category) + 0.3 * len(shared) / len(either) + 0.2 * lower / higher
    return round(score, 2)
