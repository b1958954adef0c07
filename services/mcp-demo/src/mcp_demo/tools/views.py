"""What several tools answer with: a product in short, an address, a period."""

from datetime import date
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from mcp_demo.shop import Shop
from mcp_demo.shop.catalogue import Category, Product
from mcp_demo.shop.sales import Period

Euros = Annotated[float, Meta(description="In EUR, VAT included.")]
Availability = Literal["in_stock", "low_stock", "out_of_stock"]

LOW_STOCK = 5

V = TypeVar("V", bound=msgspec.Struct)


class ProductCard(msgspec.Struct, frozen=True):
    """A product in short; get_product has all of it."""

    product_id: str
    name: str
    brand: str
    category: Category
    price: Euros
    currency: str
    availability: Availability
    rating: Annotated[float | None, Meta(description="Mean stars from 1 to 5; null without reviews.")]
    reviews: int


class PeriodView(msgspec.Struct, frozen=True):
    """Days, the first and the last included."""

    date_from: date
    date_to: date
    days: int


def shown(kind: type[V], record: msgspec.Struct, **more: object) -> V:
    """A record as tools show it: the fields that it has in common with `kind`, and `more`."""
    common = [name for name in kind.__struct_fields__ if name not in more and hasattr(record, name)]
    return kind(**{name: getattr(record, name) for name in common}, **more)


def card(shop: Shop, product: Product) -> ProductCard:
    """The product in short, with its rating and availability as of now."""
    rating = shop.rating(product.product_id)
    return shown(
        ProductCard,
        product,
        price=euros(product.price_cents),
        currency=CURRENCY,
        availability=availability(product.stock),
        rating=rating.average,
        reviews=rating.reviews,
    )


def availability(stock: int) -> Availability:
    """Out of stock at none, low below five."""
    if stock == 0:
        return "out_of_stock"
    return "low_stock" if stock < LOW_STOCK else "in_stock"


def period_view(period: Period) -> PeriodView:
    return PeriodView(period.start, period.end, period.days)


CURRENCY = "EUR"


def euros(cents: int) -> float:
    """Cents as euros; a float is exact enough here, because sums are made in cents."""
    return round(cents / 100, 2)
