"""Compute sales figures from the orders, so that they agree with the order tools.

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
from agentchat.mcp_demo.shop.shop import Shop

Interval = Literal["day", "week", "month"]

DEFAULT_DAYS = 30
MAX_BUCKETS = 120


class Period(msgspec.Struct, frozen=True):
    """Days from `start` to `end`, both included."""

    start: date
    end: date

    @property
    def days(self) -> int:
        """Return the number of days."""
        return (self.end - self.start).days + 1

    def get_previous(self) -> "Period":
        """Return the period of the same length that ends the day before this one starts."""
        return Period(self.start - timedelta(days=self.days), self.start - timedelta(days=1))


class SalesTotals(msgspec.Struct, frozen=True):
    """The sums of a period's orders, in cents and counts."""

    orders: int
    units: int
    gross_cents: int
    returned_cents: int

    @property
    def net_cents(self) -> int:
        """Return gross without returned."""
        return self.gross_cents - self.returned_cents


class ProductSales(msgspec.Struct):
    """The sales of a product that were kept: units and net revenue in cents."""

    units: int = 0
    cents: int = 0


def choose_period(start: date | None, end: date | None) -> Period:
    """Return the requested days as far as they are on record; by default the last 30 days.

    Raises:
        ShopError: The period ends before it starts, or lies outside the days on record.
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


def list_order_lines(
    shop: Shop, span: Period, category: Category | None = None
) -> Iterator[tuple[Order, OrderItem]]:
    """Yield the order lines that count in a period, of one category or of all."""
    for order in shop.orders.values():
        if order.status == "cancelled" or not span.start <= order.placed_at.date() <= span.end:
            continue
        for item in order.items:
            if category in (None, shop.products[item.product_id].category):
                yield order, item


def sum_totals(shop: Shop, span: Period, category: Category | None = None) -> SalesTotals:
    """Sum the orders of a period, of one category or of all."""
    counted = list(list_order_lines(shop, span, category))
    return SalesTotals(
        orders=len({order.order_id for order, _ in counted}),
        units=sum(item.quantity for _, item in counted),
        gross_cents=sum(item.cents for _, item in counted),
        returned_cents=sum(item.cents for order, item in counted if order.status == "returned"),
    )


def sum_by_product(shop: Shop, span: Period, category: Category | None = None) -> dict[str, ProductSales]:
    """Return the sales that were kept, by product id; products that sold nothing are left out."""
    sold: dict[str, ProductSales] = defaultdict(ProductSales)
    for order, item in list_order_lines(shop, span, category):
        if order.status != "returned":
            sold[item.product_id].units += item.quantity
            sold[item.product_id].cents += item.cents
    return dict(sold)


def split_period(span: Period, interval: Interval) -> list[Period]:
    """Split a period into days, weeks (from Monday) or months, partial ones included.

    Raises:
        ShopError: There would be more than 120 pieces.
    """
    pieces: list[Period] = []
    start = span.start
    while start <= span.end:
        if len(pieces) == MAX_BUCKETS:
            raise ShopError(f"{span.days} days make more than {MAX_BUCKETS} points: take a longer interval.")
        pieces.append(Period(start, min(_get_last_day(start, interval), span.end)))
        start = pieces[-1].end + timedelta(days=1)
    return pieces


def _get_last_day(day: date, interval: Interval) -> date:
    match interval:
        case "day":
            return day
        case "week":
            return day + timedelta(days=6 - day.weekday())
        case "month":
            return (day.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)
