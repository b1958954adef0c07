"""An order as tools show it, with everything in it."""

from datetime import date
from typing import Annotated

import msgspec
from msgspec import Meta

from mcp_demo.shop import Shop, parcels
from mcp_demo.shop.calendar import Instant
from mcp_demo.shop.customers import Address
from mcp_demo.shop.orders import Carrier, Closed, Order, Payment, Status
from mcp_demo.tools.views import CURRENCY, Euros, euros, shown


class LineView(msgspec.Struct, frozen=True):
    product_id: str
    name: str
    quantity: int
    unit_price: Euros
    line_total: Euros


class ShipmentView(msgspec.Struct, frozen=True):
    carrier: Carrier
    tracking_number: str
    state: parcels.State
    shipped_on: date
    expected_on: date
    delivered_on: date | None


class OrderView(msgspec.Struct, frozen=True):
    """An order with everything in it."""

    order_id: str
    customer_id: str
    customer_name: str
    placed_at: Instant
    status: Status
    items: list[LineView]
    goods: Euros
    delivery: Euros
    total: Euros
    refund: Annotated[float, Meta(description="What was paid back, in EUR; 0 unless cancelled or returned.")]
    currency: str
    payment_method: Payment
    shipping_address: Address
    shipment: Annotated[ShipmentView | None, Meta(description="Null until the parcel has left.")]
    closed: Annotated[Closed | None, Meta(description="When and why it was cancelled or returned.")]
    can_be_changed: Annotated[bool, Meta(description="Whether it can be cancelled or sent elsewhere.")]
    ticket_ids: Annotated[list[str], Meta(description="Support tickets about this order.")]


class OrderSummary(msgspec.Struct, frozen=True):
    """An order in short."""

    order_id: str
    placed_at: Instant
    status: Status
    total: Euros
    products: Annotated[list[str], Meta(description="Names of the products in it.")]


def order_view(shop: Shop, order: Order) -> OrderView:
    """All there is to say of an order."""
    shipment = order.shipment
    return shown(
        OrderView,
        order,
        customer_name=shop.customers[order.customer_id].name,
        items=_lines(shop, order),
        goods=euros(order.goods_cents),
        delivery=euros(order.delivery_cents),
        total=euros(order.total_cents),
        refund=euros(order.refund_cents),
        currency=CURRENCY,
        shipping_address=shop.address(order),
        shipment=None if shipment is None else shown(ShipmentView, shipment, state=parcels.state(shipment)),
        can_be_changed=order.status == "processing",
        ticket_ids=[t.ticket_id for t in shop.tickets.values() if t.order_id == order.order_id],
    )


def order_summary(shop: Shop, order: Order) -> OrderSummary:
    """An order as a line of a list."""
    names = [shop.products[item.product_id].name for item in order.items]
    return shown(OrderSummary, order, total=euros(order.total_cents), products=names)


def _lines(shop: Shop, order: Order) -> list[LineView]:
    return [
        shown(
            LineView,
            item,
            name=shop.products[item.product_id].name,
            unit_price=euros(item.unit_price_cents),
            line_total=euros(item.cents),
        )
        for item in order.items
    ]
