"""Business Intelligence: revenue and stock, added up from the same orders that the other tools show."""

from datetime import date, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mcp_demo.shop import Shop, sales
from mcp_demo.shop.calendar import TODAY
from mcp_demo.shop.catalogue import Category
from mcp_demo.shop.sales import Interval, Period, ProductSales, SalesTotals
from mcp_demo.tools.inputs import Arguments, Limit, OfCategory, PeriodArguments
from mcp_demo.tools.tool import Effect, tool
from mcp_demo.tools.views import CURRENCY, Availability, PeriodView, availability, euros, period_view, shown

NetRevenue = Annotated[
    float, Meta(description="Goods sold less goods returned, in EUR with VAT, delivery charges left out.")
]


class CategorySales(msgspec.Struct, frozen=True):
    category: Category
    units: int
    net_revenue: NetRevenue


class SalesSummary(msgspec.Struct, frozen=True):
    """What a period came to. Cancelled orders do not count; an order counts on the day it was placed."""

    period: PeriodView
    orders: int
    units: int
    gross_revenue: Annotated[float, Meta(description="Goods sold, those returned included, in EUR.")]
    returned_revenue: Annotated[float, Meta(description="Goods that came back, in EUR.")]
    net_revenue: NetRevenue
    average_order_value: Annotated[float | None, Meta(description="Gross revenue for each order, in EUR.")]
    currency: str
    by_category: Annotated[list[CategorySales], Meta(description="Highest net revenue first.")]
    previous_period: Annotated[PeriodView, Meta(description="As many days just before.")]
    previous_net_revenue: NetRevenue
    change_percent: Annotated[
        float | None, Meta(description="Net revenue against the previous period; null if that had none.")
    ]


@tool("Business Intelligence", "Summarise sales", Effect.READS)
def get_sales_summary(shop: Shop, arguments: PeriodArguments) -> SalesSummary:
    """Sum up the shop's sales in a period: orders, units, gross and net revenue, returns, average order
    value, revenue by category, and the change against the period before. Without dates: the last 30
    days.
    """
    period = sales.period(arguments.date_from, arguments.date_to)
    now, before = (sales.totals(shop, span, arguments.category) for span in (period, period.before()))
    return SalesSummary(
        period=period_view(period),
        orders=now.orders,
        units=now.units,
        gross_revenue=euros(now.gross_cents),
        returned_revenue=euros(now.returned_cents),
        net_revenue=euros(now.net_cents),
        average_order_value=euros(round(now.gross_cents / now.orders)) if now.orders else None,
        currency=CURRENCY,
        by_category=_by_category(shop, period, arguments.category),
        previous_period=period_view(period.before()),
        previous_net_revenue=euros(before.net_cents),
        change_percent=_change(now, before),
    )


def _by_category(shop: Shop, period: Period, only: Category | None) -> list[CategorySales]:
    sold: dict[Category, ProductSales] = {}
    for product_id, one in sales.by_product(shop, period, only).items():
        total = sold.setdefault(shop.products[product_id].category, ProductSales())
        total.units += one.units
        total.cents += one.cents
    ranked = sorted(sold.items(), key=lambda entry: -entry[1].cents)
    return [CategorySales(category, total.units, euros(total.cents)) for category, total in ranked]


def _change(now: SalesTotals, before: SalesTotals) -> float | None:
    if not before.net_cents:
        return None
    return round(100 * (now.net_cents - before.net_cents) / before.net_cents, 1)


class SalesTrendQuery(PeriodArguments, frozen=True, kw_only=True):
    interval: Annotated[
        Interval, Meta(description="Length of each point; weeks start on Monday. At most 120 points.")
    ] = "week"


class TrendPoint(msgspec.Struct, frozen=True):
    date_from: date
    date_to: date
    orders: int
    units: int
    net_revenue: NetRevenue


class SalesTrend(msgspec.Struct, frozen=True):
    """Sales over time, oldest first; the first and the last point may be shorter than the interval."""

    period: PeriodView
    interval: Interval
    currency: str
    net_revenue: NetRevenue
    points: list[TrendPoint]


@tool("Business Intelligence", "Show the sales trend", Effect.READS)
def get_sales_trend(shop: Shop, arguments: SalesTrendQuery) -> SalesTrend:
    """Show how sales developed: orders, units and net revenue for each day, week or month of a period,
    of one product category or of all. Use it for trends and charts; for one figure use
    get_sales_summary.
    """
    period = sales.period(arguments.date_from, arguments.date_to)
    points = [
        TrendPoint(piece.start, piece.end, part.orders, part.units, euros(part.net_cents))
        for piece in sales.buckets(period, arguments.interval)
        for part in (sales.totals(shop, piece, arguments.category),)
    ]
    return SalesTrend(
        period=period_view(period),
        interval=arguments.interval,
        currency=CURRENCY,
        net_revenue=euros(sales.totals(shop, period, arguments.category).net_cents),
        points=points,
    )


Metric = Literal["revenue", "units"]


class ProductRankingQuery(PeriodArguments, frozen=True, kw_only=True):
    metric: Annotated[Metric, Meta(description="What to rank by.")] = "revenue"
    order: Annotated[
        Literal["best", "worst"],
        Meta(description="Best sellers first, or slow sellers first (products not sold at all included)."),
    ] = "best"
    limit: Limit = 5


class RankedProduct(msgspec.Struct, frozen=True):
    rank: int
    product_id: str
    name: str
    category: Category
    units: int
    net_revenue: NetRevenue


class ProductRanking(msgspec.Struct, frozen=True):
    """Products by what was sold of them and kept."""

    period: PeriodView
    metric: Metric
    currency: str
    products: list[RankedProduct]


@tool("Business Intelligence", "Rank products", Effect.READS)
def rank_products(shop: Shop, arguments: ProductRankingQuery) -> ProductRanking:
    """Rank products by net revenue or by units sold in a period: the best sellers or the slowest, of one
    category or of all. Without dates: the last 30 days.
    """
    period = sales.period(arguments.date_from, arguments.date_to)
    sold = sales.by_product(shop, period, arguments.category)
    if arguments.order == "worst":
        sold = {
            product_id: sold.get(product_id, ProductSales()) for product_id in _ids(shop, arguments.category)
        }
    ranked = sorted(
        sold.items(),
        key=lambda entry: entry[1].cents if arguments.metric == "revenue" else entry[1].units,
        reverse=arguments.order == "best",
    )
    return ProductRanking(
        period=period_view(period),
        metric=arguments.metric,
        currency=CURRENCY,
        products=[
            shown(
                RankedProduct,
                shop.products[product_id],
                rank=rank,
                units=one.units,
                net_revenue=euros(one.cents),
            )
            for rank, (product_id, one) in enumerate(ranked[: arguments.limit], 1)
        ],
    )


def _ids(shop: Shop, only: Category | None) -> list[str]:
    return [product.product_id for product in shop.products.values() if only in (None, product.category)]


class InventoryQuery(Arguments, frozen=True, kw_only=True):
    category: OfCategory = None
    below: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="Only products with fewer units than this. Leave out for all of them."),
    ] = None
    limit: Limit = 50


class StockLine(msgspec.Struct, frozen=True):
    product_id: str
    name: str
    category: Category
    stock: int
    availability: Availability
    stock_value: Annotated[float, Meta(description="Stock at the selling price, in EUR.")]
    sold_last_30_days: Annotated[int, Meta(description="Units sold and kept.")]
    days_of_cover: Annotated[
        int | None, Meta(description="How long the stock lasts at that pace; null if none was sold.")
    ]


class Inventory(msgspec.Struct, frozen=True):
    """What lies in the warehouse, scarcest first."""

    as_of: date
    matching: Annotated[int, Meta(description="How many products match, returned here or not.")]
    units: Annotated[int, Meta(description="Of all that match.")]
    stock_value: Annotated[float, Meta(description="Of all that match, in EUR.")]
    currency: str
    products: list[StockLine]


@tool("Business Intelligence", "Report the inventory", Effect.READS)
def get_inventory_report(shop: Shop, arguments: InventoryQuery) -> Inventory:
    """Report the stock of the warehouse, scarcest product first: units, value, units sold in the last 30
    days and how long the stock lasts. Use it to find what is running out or what has to be ordered.
    """
    month = Period(TODAY - timedelta(days=29), TODAY)
    sold = sales.by_product(shop, month)
    chosen = [
        product
        for product in sorted(shop.products.values(), key=lambda p: (p.stock, p.product_id))
        if arguments.category in (None, product.category)
        and (arguments.below is None or product.stock < arguments.below)
    ]
    lines = [
        shown(
            StockLine,
            product,
            availability=availability(product.stock),
            stock_value=euros(product.stock * product.price_cents),
            sold_last_30_days=(units := sold.get(product.product_id, ProductSales()).units),
            days_of_cover=product.stock * 30 // units if units else None,
        )
        for product in chosen[: arguments.limit]
    ]
    return Inventory(
        as_of=TODAY,
        matching=len(chosen),
        units=sum(product.stock for product in chosen),
        stock_value=euros(sum(product.stock * product.price_cents for product in chosen)),
        currency=CURRENCY,
        products=lines,
    )


TOOLS = (get_sales_summary, get_sales_trend, rank_products, get_inventory_report)
