"""Define products and their reviews, and score how well a product matches a query."""

from datetime import date
from typing import Literal

import msgspec

Category = Literal["tents", "sleeping", "backpacks", "footwear", "clothing", "kitchen", "electronics"]
Activity = Literal["hiking", "camping", "trail-running", "travel", "winter"]


class Product(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A product of the catalogue. The price includes VAT; open orders are already off `stock`."""

    product_id: str
    name: str
    brand: str
    category: Category
    price_cents: int
    activities: tuple[Activity, ...]
    stock: int
    description: str
    specs: dict[str, str]


class Review(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A customer's review of a product in an order."""

    review_id: str
    order_id: str
    product_id: str
    stars: int
    written_on: date
    title: str
    text: str


class Rating(msgspec.Struct, frozen=True):
    """The mean of a product's stars to one decimal; None without reviews."""

    average: float | None
    reviews: int


def rate(reviews: tuple[Review, ...], product_id: str) -> Rating:
    """Return the rating of a product from its reviews."""
    stars = [review.stars for review in reviews if review.product_id == product_id]
    return Rating(round(sum(stars) / len(stars), 1) if stars else None, len(stars))


class Relevance(msgspec.Struct, frozen=True):
    """The match of a product with a query: words in its name count double."""

    score: int
    every_word: bool


def score_relevance(product: Product, query: str) -> Relevance:
    """Score a product against a query; a query without words fits every product."""
    name = f"{product.name} {product.brand} {product.category}".casefold()
    text = f"{' '.join(product.activities)} {product.description}".casefold()
    words = [word.removesuffix("s") for word in query.casefold().split() if word not in _FILLERS]
    if not words:
        return Relevance(1, every_word=True)
    scores = [2 * (word in name) or int(word in text) for word in words]
    return Relevance(sum(scores), every_word=all(scores))


_FILLERS = frozenset(("a", "an", "and", "for", "in", "of", "or", "the", "to", "with"))
