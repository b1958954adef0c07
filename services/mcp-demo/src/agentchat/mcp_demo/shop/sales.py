"""Sales figures, all added up from the orders, so that they agree with what the order tools show.

An order counts on the day it was placed. Cancelled orders do not count. Goods that came back are in `gross`
and in `returned`; `net` is what is left. Delivery charges are not revenue.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Literal

import msgspec

from agentchat.mcp_demo.shop.calendar import OPENED, TODAY
from agentchat.mcp_demo.shop.catalogue import Category
from agentchat.mcp_demo.shop.errors import ShopError
from agentchat.mcp_demo.shop.orders import Order, OrderItem
from agentchat.mcp_demo.shop.state import Shop

Interval = Literal["day", "week", "month"]

DEFAULT_DAYS = 30
MAX_BUCKETS = 120


class Period(msgspec.Struct, frozen=True):
    """Days from `start` to `end`, both included."""

    start: date
    end: date

    @property
    def days(self) -> int:
        return (self.end - self.start).days + 1

    def before(self) -> "Period":
        """The period of the same length that ends the day before this one starts."""
        return Period(self.start - timedelta(days=self.days), self.start - timedelta(days=1))


class SalesTotals(msgspec.Struct, frozen=True):
    """The sums of a period's orders, in cents and counts."""

    orders: int
    units: int
    gross_cents: int
    returned_cents: int

    @property
    def net_cents(self) -> int:
        return self.gross_cents - self.returned_cents


class ProductSales(msgspec.Struct):
    """What was kept of one product: units and net revenue in cents."""

    units: int = 0
    cents: int = 0


def period(start: date | None, end: date | None) -> Period:
    """The requested days, as far as they are on record; the last 30 days where none are requested.

    Raises ShopError where it ends before it starts, or lies outside the days on record.
    """
    if start and end and start > end:
        raise ShopError(f"date_from {start} is later than date_to {end}: swap the two.")
    if (end or TODAY) < OPENED or (start or OPENED) > TODAY:
        raise ShopError(
            f"The shop's sales are on record from {OPENED} to {TODAY} (today): ask for days within."
        )
    last = min(end or TODAY, TODAY)
    first = start or last - timedelta(days=DEFAULT_DAYS - 1)
    return Period(max(first, OPENED), last)


def lines(shop: Shop, span: Period, category: Category | None = None) -> Iterator[tuple[Order, OrderItem]]:
    """The order lines that count in a period, of one category or of all."""
    for order in shop.orders.values():
        if order.status == "cancelled" or not span.start <= order.placed_at.date() <= span.end:
            continue
        for item in order.items:
            if category in (None, shop.products[item.product_id].category):
                yield order, item


def totals(shop: Shop, span: Period, category: Category | None = None) -> SalesTotals:
    counted = list(lines(shop, span, category))
    return SalesTotals(
        orders=len({order.order_id for order, _ in counted}),
        units=sum(item.quantity for _, item in counted),
        gross_cents=sum(item.cents for _, item in counted),
        returned_cents=sum(item.cents for order, item in counted if order.status == "returned"),
    )


def by_product(shop: Shop, span: Period, category: Category | None = None) -> dict[str, ProductSales]:
    """What each product sold and was kept, by product id; only those that sold."""
    sold: dict[str, ProductSales] = defaultdict(ProductSales)
    for order, item in lines(shop, span, category):
        if order.status != "returned":
            sold[item.product_id].units += item.quantity
            sold[item.product_id].cents += item.cents
    return dict(sold)


def buckets(span: Period, interval: Interval) -> list[Period]:
    """The period cut into days, weeks (from Monday) or months; the first and the last may be partial.

    Raises ShopError above 120 pieces.
    """
    pieces: list[Period] = []
    start = span.start
    while start <= span.end:
        if len(pieces) == MAX_BUCKETS:
            raise ShopError(f"{span.days} days make more than {MAX_BUCKETS} points: take a longer interval.")
        pieces.append(Period(start, min(_last_day(start, interval), span.end)))
        start = pieces[-1].end + timedelta(days=1)
    return pieces


def _last_day(day: date, interval: Interval) -> date:
    match interval:
        case "day":
            return day
        case "week":
            return day + timedelta(days=6 - day.weekday())
        case "month":
            return (day.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)
