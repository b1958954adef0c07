"""What a product is, the categories and activities it is found by, and what its buyers wrote about it."""

from datetime import date
from typing import Literal

import msgspec

Category = Literal["tents", "sleeping", "backpacks", "footwear", "clothing", "kitchen", "electronics"]
Activity = Literal["hiking", "camping", "trail-running", "travel", "winter"]


class Product(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One article of the catalogue; the price includes VAT, `stock` has open orders taken off already."""

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
    """What the customer of an order wrote about one product of it."""

    review_id: str
    order_id: str
    product_id: str
    stars: int
    written_on: date
    title: str
    text: str


class Rating(msgspec.Struct, frozen=True):
    """The mean of a product's stars to one decimal; None where nobody has reviewed it."""

    average: float | None
    reviews: int


def rate(reviews: tuple[Review, ...], product_id: str) -> Rating:
    stars = [review.stars for review in reviews if review.product_id == product_id]
    return Rating(round(sum(stars) / len(stars), 1) if stars else None, len(stars))


class Relevance(msgspec.Struct, frozen=True):
    """How well a product fits words: the more of them, and the more in its name, the higher the score."""

    score: int
    every_word: bool


def relevance(product: Product, query: str) -> Relevance:
    """How well a product fits the words of a query; a query without words fits every product alike."""
    name = f"{product.name} {product.brand} {product.category}".casefold()
    text = f"{' '.join(product.activities)} {product.description}".casefold()
    words = [word.removesuffix("s") for word in query.casefold().split() if word not in _FILLERS]
    if not words:
        return Relevance(1, every_word=True)
    scores = [2 * (word in name) or int(word in text) for word in words]
    return Relevance(sum(scores), every_word=all(scores))


_FILLERS = frozenset(("a", "an", "and", "for", "in", "of", "or", "the", "to", "with"))
