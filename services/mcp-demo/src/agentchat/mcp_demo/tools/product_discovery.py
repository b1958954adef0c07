"""Define the tools of Product Discovery: search, show, compare, read reviews."""

from typing import Annotated, Literal

from pydantic import Field

from agentchat.mcp_demo.shop import Shop, catalogue
from agentchat.mcp_demo.shop.catalogue import Activity
from agentchat.mcp_demo.tools.category import Category
from agentchat.mcp_demo.tools.results import Json, is_affordable, pick, show_card
from agentchat.mcp_demo.tools.tool_parameters import InStockOnly, Limit, MaxPrice, OfCategory, ProductId

Sort = Literal["relevance", "price_low", "price_high", "rating"]


def add_tools(category: Category, shop: Shop) -> None:
    """Add the tools of this category."""

    @category.add_reader("Search products")
    async def search_products(
        query: Annotated[
            str,
            Field(
                max_length=100,
                description="Words to look for in names, brands and texts. Leave out to list by the filters.",
                examples=["rain jacket"],
            ),
        ] = "",
        category: OfCategory = None,
        activity: Annotated[
            Activity | None, Field(description="Only products made for this. Leave out for any activity.")
        ] = None,
        max_price: MaxPrice = None,
        min_rating: Annotated[
            Annotated[float, Field(ge=1, le=5)] | None,
            Field(description="Only products rated at least so, from 1 to 5 stars. Leave out for any."),
        ] = None,
        in_stock_only: InStockOnly = False,
        sort_by: Annotated[Sort, Field(description="What comes first.")] = "relevance",
        limit: Limit = 5,
    ) -> Json:
        """Search the catalogue by words, category, activity, price, rating and stock.

        Use it when a customer looks for something; all details of one product come from get_product.
        """
        hits = [
            (catalogue.score_relevance(product, query), show_card(shop, product))
            for product in shop.products.values()
            if category in (None, product.category)
            and (activity is None or activity in product.activities)
            and is_affordable(product, max_price)
            and (product.stock > 0 or not in_stock_only)
        ]
        least = min_rating or 0
        hits = [hit for hit in hits if hit[0].score and (hit[1]["rating"] or 0) >= least]
        found = [hit for hit in hits if hit[0].every_word] or hits
        found.sort(key=lambda hit: _sort_key(hit[0].score, hit[1], sort_by))
        return {
            "matching": len(found),
            "products": [product for _, product in found[:limit]],
            "advice": _advise(found),
        }

    @category.add_reader("Get a product")
    async def get_product(product_id: ProductId) -> Json:
        """Show one product by its id.

        Description, price, stock, rating, activities and technical facts. Use it for "is it in stock", "how
        heavy is it" and the like.
        """
        product = shop.get_product(product_id)
        facts = pick(product, "stock", "description", "activities", "specs")
        return {"product": show_card(shop, product)} | facts

    @category.add_reader("Compare products")
    async def compare_products(
        product_ids: Annotated[
            list[ProductId],
            Field(
                min_length=2,
                max_length=4,
                description="Two to four product ids.",
                examples=[["PRD-109", "PRD-110"]],
            ),
        ],
    ) -> Json:
        """Compare two to four products side by side.

        Price, rating, availability and every technical fact. Use it for "which of these" questions.
        """
        products = [shop.get_product(product_id) for product_id in dict.fromkeys(product_ids)]
        cards = [show_card(shop, product) for product in products]
        names = dict.fromkeys(name for product in products for name in product.specs)
        rated = [each for each in cards if each["rating"] is not None]
        return {
            "products": cards,
            "facts": [
                {"name": name, "values": [product.specs.get(name) for product in products]} for name in names
            ],
            "cheapest": min(cards, key=lambda each: each["price"])["product_id"],
            "best_rated": max(rated, key=lambda each: each["rating"])["product_id"] if rated else None,
        }

    @category.add_reader("List product reviews")
    async def list_product_reviews(
        product_id: ProductId,
        max_stars: Annotated[
            int,
            Field(
                ge=1, le=5, description="Only reviews with at most this number of stars; 2 finds complaints."
            ),
        ] = 5,
        limit: Limit = 5,
    ) -> Json:
        """List what buyers say about a product, newest first, with stars.

        Use it for "is it any good", and with max_stars 2 or 3 to find complaints.
        """
        product = shop.get_product(product_id)
        found = [
            review
            for review in sorted(shop.reviews, key=lambda review: review.written_on, reverse=True)
            if review.product_id == product_id and review.stars <= max_stars
        ]
        reviews = [_show_review(shop, review) for review in found[:limit]]
        return {"product": show_card(shop, product), "matching": len(found), "reviews": reviews}


def _advise(found: list[tuple[catalogue.Relevance, Json]]) -> str | None:
    if not found:
        return "Nothing matches all of this: leave out a filter, or search only by category."
    if not found[0][0].every_word:
        return "No product has all the words; these have some of them."
    return None


def _sort_key(relevance: int, product: Json, sort: Sort) -> tuple[float, str]:
    figures: dict[Sort, float] = {
        "relevance": -relevance,
        "price_low": product["price"],
        "price_high": -product["price"],
        "rating": -(product["rating"] or 0),
    }
    return figures[sort], product["product_id"]


def _show_review(shop: Shop, review: catalogue.Review) -> Json:
    name = shop.customers[shop.orders[review.order_id].customer_id].name
    return (
        pick(review, "review_id", "stars", "written_on")
        | {"customer_name": name}
        | pick(review, "order_id", "title", "text")
    )
