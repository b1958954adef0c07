"""Product Discovery: search the catalogue, look at products, compare them, read reviews."""

from datetime import date
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mcp_demo.shop import Shop, catalogue
from mcp_demo.shop.catalogue import Activity, Product
from mcp_demo.tools.inputs import Arguments, Limit, MaxPrice, OfCategory, ProductId
from mcp_demo.tools.tool import Effect, tool
from mcp_demo.tools.views import ProductCard, card, shown

Sort = Literal["relevance", "price_low", "price_high", "rating"]


class ProductQuery(Arguments, frozen=True, kw_only=True):
    query: Annotated[
        str,
        Meta(
            max_length=100,
            description="Words to look for in names, brands and texts. Leave out to list by the filters.",
            examples=["rain jacket"],
        ),
    ] = ""
    category: OfCategory = None
    activity: Annotated[
        Activity | None, Meta(description="Only products made for this. Leave out for any activity.")
    ] = None
    max_price: MaxPrice = None
    min_rating: Annotated[
        Annotated[float, Meta(ge=1, le=5)] | None,
        Meta(description="Only products rated at least so, from 1 to 5 stars. Leave out for any rating."),
    ] = None
    in_stock_only: Annotated[bool, Meta(description="Leave out what is out of stock.")] = False
    sort_by: Annotated[Sort, Meta(description="What comes first.")] = "relevance"
    limit: Limit = 5


class ProductList(msgspec.Struct, frozen=True):
    """Products found; `advice` says what to try where none fits in full."""

    matching: Annotated[int, Meta(description="How many products match, returned here or not.")]
    products: list[ProductCard]
    advice: str | None


@tool("Product Discovery", "Search products", Effect.READS)
def search_products(shop: Shop, arguments: ProductQuery) -> ProductList:
    """Search the catalogue of the outdoor shop by words, category, activity, price, rating and stock.
    Use it when a customer looks for something; all details of one product come from get_product.
    """
    hits = [
        (catalogue.relevance(product, arguments.query), card(shop, product))
        for product in shop.products.values()
        if _passes(product, arguments)
    ]
    some = [hit for hit in hits if hit[0].score and _rated(hit[1], arguments.min_rating)]
    found = [hit for hit in some if hit[0].every_word] or some
    found.sort(key=lambda hit: _sort_key(hit[0].score, hit[1], arguments.sort_by))
    return ProductList(
        matching=len(found),
        products=[card_ for _, card_ in found[: arguments.limit]],
        advice=_advice(found),
    )


def _advice(found: list[tuple[catalogue.Relevance, ProductCard]]) -> str | None:
    if not found:
        return "Nothing matches all of this: leave out a filter, or search by category alone."
    if not found[0][0].every_word:
        return "No product has all the words; these have some of them."
    return None


def _passes(product: Product, wanted: ProductQuery) -> bool:
    return (
        wanted.category in (None, product.category)
        and (wanted.activity is None or wanted.activity in product.activities)
        and (wanted.max_price is None or product.price_cents <= round(wanted.max_price * 100))
        and (product.stock > 0 or not wanted.in_stock_only)
    )


def _rated(product: ProductCard, least: float | None) -> bool:
    return least is None or (product.rating is not None and product.rating >= least)


def _sort_key(relevance: int, product: ProductCard, sort: Sort) -> tuple[float, str]:
    figures: dict[Sort, float] = {
        "relevance": -relevance,
        "price_low": product.price,
        "price_high": -product.price,
        "rating": -(product.rating or 0),
    }
    return figures[sort], product.product_id


class OneProduct(Arguments, frozen=True, kw_only=True):
    product_id: ProductId


class ProductView(msgspec.Struct, frozen=True):
    """All there is to know of a product."""

    product: ProductCard
    stock: Annotated[int, Meta(description="Units that can be bought now.")]
    description: str
    activities: tuple[Activity, ...]
    specs: Annotated[dict[str, str], Meta(description="Facts such as weight or volume, by name.")]


@tool("Product Discovery", "Get a product", Effect.READS)
def get_product(shop: Shop, arguments: OneProduct) -> ProductView:
    """Show one product by its id: description, price, stock, rating, activities and technical facts. Use
    it for "is it in stock", "how heavy is it" and the like.
    """
    product = shop.product(arguments.product_id)
    return shown(ProductView, product, product=card(shop, product))


class CompareQuery(Arguments, frozen=True, kw_only=True):
    product_ids: Annotated[
        list[ProductId],
        Meta(
            min_length=2,
            max_length=4,
            description="Two to four product ids.",
            examples=[["PRD-109", "PRD-110"]],
        ),
    ]


class ProductFact(msgspec.Struct, frozen=True):
    name: str
    values: Annotated[
        list[str | None], Meta(description="In the order of `products`; null where it is not stated.")
    ]


class Comparison(msgspec.Struct, frozen=True):
    """Products side by side."""

    products: list[ProductCard]
    facts: list[ProductFact]
    cheapest: Annotated[str, Meta(description="Id of the cheapest.")]
    best_rated: Annotated[str | None, Meta(description="Id of the best rated; null if none has reviews.")]


@tool("Product Discovery", "Compare products", Effect.READS)
def compare_products(shop: Shop, arguments: CompareQuery) -> Comparison:
    """Compare two to four products side by side: price, rating, availability and every technical fact.
    Use it for "which of these" questions.
    """
    products = [shop.product(product_id) for product_id in dict.fromkeys(arguments.product_ids)]
    cards = [card(shop, product) for product in products]
    names = dict.fromkeys(name for product in products for name in product.specs)
    rated = [one for one in cards if one.rating is not None]
    return Comparison(
        products=cards,
        facts=[ProductFact(name, [product.specs.get(name) for product in products]) for name in names],
        cheapest=min(cards, key=lambda one: one.price).product_id,
        best_rated=max(rated, key=lambda one: one.rating or 0).product_id if rated else None,
    )


class ReviewQuery(Arguments, frozen=True, kw_only=True):
    product_id: ProductId
    max_stars: Annotated[
        int, Meta(ge=1, le=5, description="Only reviews with at most so many stars; 2 finds the complaints.")
    ] = 5
    limit: Limit = 5


class ReviewView(msgspec.Struct, frozen=True):
    review_id: str
    stars: Annotated[int, Meta(ge=1, le=5)]
    written_on: date
    customer_name: str
    order_id: Annotated[str, Meta(description="The order it was bought with.")]
    title: str
    text: str


class ProductReviews(msgspec.Struct, frozen=True):
    """Reviews of a product by people who bought it, newest first."""

    product: ProductCard
    matching: Annotated[int, Meta(description="How many reviews match, returned here or not.")]
    reviews: list[ReviewView]


@tool("Product Discovery", "List product reviews", Effect.READS)
def list_product_reviews(shop: Shop, arguments: ReviewQuery) -> ProductReviews:
    """List what buyers say about a product, newest first, with stars. Use it for "is it any good", and
    with max_stars 2 or 3 to find complaints.
    """
    product = shop.product(arguments.product_id)
    found = [
        review
        for review in sorted(shop.reviews, key=lambda review: review.written_on, reverse=True)
        if review.product_id == product.product_id and review.stars <= arguments.max_stars
    ]
    return ProductReviews(
        product=card(shop, product),
        matching=len(found),
        reviews=[
            shown(
                ReviewView,
                review,
                customer_name=shop.customers[shop.orders[review.order_id].customer_id].name,
            )
            for review in found[: arguments.limit]
        ],
    )


TOOLS = (search_products, get_product, compare_products, list_product_reviews)
