"""Define the tools of Business Intelligence: revenue and stock, from the orders."""

from datetime import timedelta
from typing import Annotated, Literal

import msgspec
from mcp.server.mcpserver import Image
from mcp_types import CallToolResult, TextContent
from pydantic import Field

from agentchat.mcp_demo.shop import Shop, catalogue, sales
from agentchat.mcp_demo.shop.bar_chart import draw_bars
from agentchat.mcp_demo.shop.calendar import TODAY
from agentchat.mcp_demo.shop.sales import Interval, Period, ProductSales
from agentchat.mcp_demo.tools.category import Category
from agentchat.mcp_demo.tools.results import CURRENCY, Json, pick, rate_availability, show_period, to_euros
from agentchat.mcp_demo.tools.tool_parameters import DateFrom, DateTo, Limit, OfCategory

Metric = Literal["revenue", "units"]


def add_tools(category: Category, shop: Shop) -> None:
    """Add the tools of this category."""

    @category.add_reader("Summarise sales")
    async def get_sales_summary(
        date_from: DateFrom = None, date_to: DateTo = None, category: OfCategory = None
    ) -> Json:
        """Sum up the shop's sales in a period.

        Orders, units, gross and net revenue, returns, average order value, revenue by category, and the
        change against the period before. Without dates: the last 30 days.
        """
        period = sales.choose_period(date_from, date_to)
        now, before = (sales.sum_totals(shop, span, category) for span in (period, period.get_previous()))
        change = now.net_cents - before.net_cents
        return {
            "period": show_period(period),
            "orders": now.orders,
            "units": now.units,
            "gross_revenue": to_euros(now.gross_cents),
            "returned_revenue": to_euros(now.returned_cents),
            "net_revenue": to_euros(now.net_cents),
            "average_order_value": to_euros(round(now.gross_cents / now.orders)) if now.orders else None,
            "currency": CURRENCY,
            "by_category": _sum_by_category(shop, period, category),
            "previous_period": show_period(period.get_previous()),
            "previous_net_revenue": to_euros(before.net_cents),
            "change_percent": round(100 * change / before.net_cents, 1) if before.net_cents else None,
        }

    @category.add_reader("Show the sales trend")
    async def get_sales_trend(
        date_from: DateFrom = None,
        date_to: DateTo = None,
        category: OfCategory = None,
        interval: Annotated[
            Interval, Field(description="Length of each point; weeks start on Monday. At most 120 points.")
        ] = "week",
        chart: Annotated[bool, Field(description="Also return net revenue as a bar chart (PNG).")] = False,
    ) -> CallToolResult:
        """Show how sales developed, for each day, week or month of a period.

        Orders, units and net revenue, of one product category or of all. Use it for trends and charts; for
        one figure use get_sales_summary.
        """
        period = sales.choose_period(date_from, date_to)
        pieces = [
            (piece, sales.sum_totals(shop, piece, category)) for piece in sales.split_period(period, interval)
        ]
        trend: Json = {
            "period": show_period(period),
            "interval": interval,
            "currency": CURRENCY,
            "net_revenue": to_euros(sales.sum_totals(shop, period, category).net_cents),
            "points": [
                {
                    "date_from": str(piece.start),
                    "date_to": str(piece.end),
                    "orders": part.orders,
                    "units": part.units,
                    "net_revenue": to_euros(part.net_cents),
                }
                for piece, part in pieces
            ],
        }
        text = TextContent(type="text", text=msgspec.json.encode(trend).decode())
        if not chart:
            return CallToolResult(content=[text], structured_content=trend)
        image = Image(data=draw_bars([part.net_cents for _, part in pieces]), format="png")
        return CallToolResult(content=[text, image.to_image_content()])

    @category.add_reader("Rank products")
    async def rank_products(
        date_from: DateFrom = None,
        date_to: DateTo = None,
        category: OfCategory = None,
        metric: Annotated[Metric, Field(description="What to rank by.")] = "revenue",
        order: Annotated[
            Literal["best", "worst"],
            Field(description="Best sellers first, or slow sellers first (products not sold included)."),
        ] = "best",
        limit: Limit = 5,
    ) -> Json:
        """Rank products by net revenue or by units sold in a period.

        The best sellers or the slowest, of one category or of all. Without dates: the last 30 days.
        """
        period = sales.choose_period(date_from, date_to)
        sold = sales.sum_by_product(shop, period, category)
        if order == "worst":
            chosen = [p for p in shop.products.values() if category in (None, p.category)]
            sold = {each.product_id: sold.get(each.product_id, ProductSales()) for each in chosen}
        ranked = sorted(
            sold.items(),
            key=lambda entry: entry[1].cents if metric == "revenue" else entry[1].units,
            reverse=order == "best",
        )
        products = [
            {"rank": rank}
            | pick(shop.products[product_id], "product_id", "name", "category")
            | {"units": sales_of.units, "net_revenue": to_euros(sales_of.cents)}
            for rank, (product_id, sales_of) in enumerate(ranked[:limit], 1)
        ]
        return {
            "period": show_period(period),
            "metric": metric,
            "currency": CURRENCY,
            "products": products,
        }

    @category.add_reader("Report the inventory")
    async def get_inventory_report(
        category: OfCategory = None,
        below: Annotated[
            Annotated[int, Field(ge=1, le=1000)] | None,
            Field(description="Only products with fewer units than this. Leave out for all of them."),
        ] = None,
        limit: Limit = 50,
    ) -> Json:
        """Report the stock of the warehouse, scarcest product first.

        Units, value, units sold in the last 30 days and how long the stock lasts. Use it to find what is
        running out or has to be ordered.
        """
        sold = sales.sum_by_product(shop, Period(TODAY - timedelta(days=29), TODAY))
        chosen = [
            product
            for product in sorted(shop.products.values(), key=lambda p: (p.stock, p.product_id))
            if category in (None, product.category) and (below is None or product.stock < below)
        ]
        return {
            "as_of": str(TODAY),
            "matching": len(chosen),
            "units": sum(product.stock for product in chosen),
            "stock_value": to_euros(sum(product.stock * product.price_cents for product in chosen)),
            "currency": CURRENCY,
            "products": [
                _describe_stock(product, sold.get(product.product_id, ProductSales()).units)
                for product in chosen[:limit]
            ],
        }


def _sum_by_category(shop: Shop, period: Period, only: catalogue.Category | None) -> list[Json]:
    """Return units and net revenue of each category, highest net revenue first."""
    sold: dict[str, ProductSales] = {}
    for product_id, one in sales.sum_by_product(shop, period, only).items():
        total = sold.setdefault(shop.products[product_id].category, ProductSales())
        total.units += one.units
        total.cents += one.cents
    ranked = sorted(sold.items(), key=lambda entry: -entry[1].cents)
    return [
        {"category": category, "units": total.units, "net_revenue": to_euros(total.cents)}
        for category, total in ranked
    ]


def _describe_stock(product: catalogue.Product, sold: int) -> Json:
    """Return a product's stock; `days_of_cover` assumes the sales of the last 30 days."""
    return pick(product, "product_id", "name", "category", "stock") | {
        "availability": rate_availability(product.stock),
        "stock_value": to_euros(product.stock * product.price_cents),
        "sold_last_30_days": sold,
        "days_of_cover": product.stock * 30 // sold if sold else None,
    }
