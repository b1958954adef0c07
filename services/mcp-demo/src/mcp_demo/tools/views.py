"""What several tools answer with: a product in short, an address, a period."""

from datetime import date, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mcp_demo.shop import Shop
from mcp_demo.shop.catalogue import Category, Product
from mcp_demo.shop.customers import Address
from mcp_demo.shop.money import CURRENCY, euros
from mcp_demo.shop.sales import Period

Euros = Annotated[float, Meta(description="In EUR, VAT included.")]
Instant = Annotated[datetime, Meta(tz=True)]
Availability = Literal["in_stock", "low_stock", "out_of_stock"]

LOW_STOCK = 5


class ProductCard(msgspec.Struct, frozen=True):
    """A product in short; get_product tells all of it."""

    product_id: str
    name: str
    brand: str
    category: Category
    price: Euros
    currency: str
    availability: Availability
    rating: Annotated[float | None, Meta(description="Mean stars from 1 to 5; null without reviews.")]
    reviews: int


class AddressView(msgspec.Struct, frozen=True):
    """A postal address; the country is ISO 3166-1 alpha-2."""

    street: str
    postal_code: str
    city: str
    country: str


class PeriodView(msgspec.Struct, frozen=True):
    """Days, the first and the last included."""

    date_from: date
    date_to: date
    days: int


def card(shop: Shop, product: Product) -> ProductCard:
    """The product in short, with its rating and availability as of now."""
    rating = shop.rating(product.product_id)
    return ProductCard(
        product_id=product.product_id,
        name=product.name,
        brand=product.brand,
        category=product.category,
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


def address_view(address: Address) -> AddressView:
    """An address as tools show it."""
    return AddressView(address.street, address.postal_code, address.city, address.country)


def period_view(period: Period) -> PeriodView:
    """A period as tools show it."""
    return PeriodView(period.start, period.end, period.days)
