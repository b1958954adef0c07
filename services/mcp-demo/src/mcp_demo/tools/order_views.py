"""An order as tools show it, with everything in it."""

from datetime import date
from typing import Annotated

import msgspec
from msgspec import Meta

from mcp_demo.shop import Shop, parcels
from mcp_demo.shop.money import CURRENCY, euros
from mcp_demo.shop.orders import Carrier, Closed, Order, Payment, Shipment, Status
from mcp_demo.tools.views import AddressView, Euros, Instant, address_view


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


class ClosedView(msgspec.Struct, frozen=True):
    on: date
    reason: str


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
    shipping_address: AddressView
    shipment: Annotated[ShipmentView | None, Meta(description="Null until the parcel has left.")]
    closed: Annotated[ClosedView | None, Meta(description="When and why it was cancelled or returned.")]
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
    return OrderView(
        order_id=order.order_id,
        customer_id=order.customer_id,
        customer_name=shop.customers[order.customer_id].name,
        placed_at=order.placed_at,
        status=order.status,
        items=_lines(shop, order),
        goods=euros(order.goods_cents),
        delivery=euros(order.delivery_cents),
        total=euros(order.total_cents),
        refund=euros(order.refund_cents),
        currency=CURRENCY,
        payment_method=order.payment_method,
        shipping_address=address_view(shop.address(order)),
        shipment=None if order.shipment is None else _shipment(order.shipment),
        closed=None if order.closed is None else _closed(order.closed),
        can_be_changed=order.status == "processing",
        ticket_ids=[t.ticket_id for t in shop.tickets.values() if t.order_id == order.order_id],
    )


def order_summary(shop: Shop, order: Order) -> OrderSummary:
    """An order as a line of a list."""
    return OrderSummary(
        order_id=order.order_id,
        placed_at=order.placed_at,
        status=order.status,
        total=euros(order.total_cents),
        products=[shop.products[item.product_id].name for item in order.items],
    )


def _lines(shop: Shop, order: Order) -> list[LineView]:
    return [
        LineView(
            product_id=item.product_id,
            name=shop.products[item.product_id].name,
            quantity=item.quantity,
            unit_price=euros(item.unit_price_cents),
            line_total=euros(item.cents),
        )
        for item in order.items
    ]


def _shipment(shipment: Shipment) -> ShipmentView:
    return ShipmentView(
        carrier=shipment.carrier,
        tracking_number=shipment.tracking_number,
        state=parcels.state(shipment),
        shipped_on=shipment.shipped_on,
        expected_on=shipment.expected_on,
        delivered_on=shipment.delivered_on,
    )


def _closed(closed: Closed) -> ClosedView:
    return ClosedView(closed.on, closed.reason)
