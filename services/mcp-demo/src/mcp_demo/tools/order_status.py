"""Order Status: look at orders and parcels, and change what has not left the warehouse."""

from datetime import date
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mcp_demo.shop import Shop, parcels
from mcp_demo.shop.calendar import Instant
from mcp_demo.shop.customers import Address
from mcp_demo.shop.errors import not_given
from mcp_demo.shop.orders import Carrier, Closed, Order, Payment, Status
from mcp_demo.tools.inputs import END, Arguments, CustomerId, Limit, OrderId
from mcp_demo.tools.tool import Effect, tool
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


def _order_view(shop: Shop, order: Order) -> OrderView:
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


def _order_summary(shop: Shop, order: Order) -> OrderSummary:
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


class OneOrder(Arguments, frozen=True, kw_only=True):
    order_id: OrderId


@tool("Order Status", "Get an order", Effect.READS)
def get_order(shop: Shop, arguments: OneOrder) -> OrderView:
    """Show one order by its id: status, items with prices, total, payment, shipping address, shipment
    and refund. Use it for any question about a known order. For the parcel's way use track_shipment.
    """
    return _order_view(shop, shop.order(arguments.order_id))


class CustomerOrdersQuery(Arguments, frozen=True, kw_only=True):
    customer_id: CustomerId
    status: Annotated[
        Status | None, Meta(description="Only orders in this status. Leave out for all of them.")
    ] = None
    limit: Limit = 10


class CustomerOrders(msgspec.Struct, frozen=True):
    """A customer's orders, newest first."""

    customer_id: str
    customer_name: str
    matching: Annotated[int, Meta(description="How many orders match, returned here or not.")]
    currency: str
    orders: list[OrderSummary]


@tool("Order Status", "List a customer's orders", Effect.READS)
def list_customer_orders(shop: Shop, arguments: CustomerOrdersQuery) -> CustomerOrders:
    """List the orders of one customer, newest first, with status and total. Use it when the order id is
    not known. The customer's id comes from find_customer.
    """
    customer = shop.customer(arguments.customer_id)
    orders = [o for o in shop.orders_of(customer.customer_id) if arguments.status in (None, o.status)]
    return CustomerOrders(
        customer_id=customer.customer_id,
        customer_name=customer.name,
        matching=len(orders),
        currency=CURRENCY,
        orders=[_order_summary(shop, order) for order in orders[: arguments.limit]],
    )


class Tracking(msgspec.Struct, frozen=True):
    """Where the parcel of an order is; without a parcel the carrier's fields are null."""

    order_id: str
    order_status: Status
    state: Literal["not_shipped", parcels.State]
    destination: str
    carrier: Carrier | None = None
    tracking_number: str | None = None
    expected_on: date | None = None
    delivered_on: date | None = None
    history: Annotated[list[parcels.Scan], Meta(description="The carrier's scans, oldest first.")] = []


@tool("Order Status", "Track a shipment", Effect.READS)
def track_shipment(shop: Shop, arguments: OneOrder) -> Tracking:
    """Tell where the parcel of an order is: carrier, tracking number, expected day of delivery, delay,
    and the scans so far. Use it for "where is my order" and "when does it arrive".
    """
    order = shop.order(arguments.order_id)
    shipment, address = order.shipment, shop.address(order)
    destination = f"{address.city}, {address.country}"
    if shipment is None:
        return Tracking(order.order_id, order.status, "not_shipped", destination)
    return shown(
        Tracking,
        shipment,
        order_id=order.order_id,
        order_status=order.status,
        state=parcels.state(shipment),
        destination=destination,
        history=parcels.scans(shipment, address),
    )


class CancelOrder(Arguments, frozen=True, kw_only=True):
    order_id: OrderId
    reason: Annotated[
        str, Meta(min_length=1, max_length=200, description="Why, in the customer's words, if known.")
    ] = "no reason given"


class Cancellation(msgspec.Struct, frozen=True):
    """The order after the call."""

    order_id: str
    status: Status
    changed: Annotated[bool, Meta(description="False if the order had been cancelled before.")]
    refund: Euros
    currency: str
    payment_method: Annotated[Payment, Meta(description="The refund goes back this way.")]


@tool("Order Status", "Cancel an order", Effect.REPLACES)
def cancel_order(shop: Shop, arguments: CancelOrder) -> Cancellation:
    """Cancel an order that is still processing, refund it in full and put its goods back into stock.
    This cannot be undone: call it only when the customer clearly asks for it. Fails for orders that have
    been shipped. Cancelling a cancelled order changes nothing.
    """
    changed = shop.cancel(arguments.order_id, arguments.reason)
    order = shop.order(arguments.order_id)
    refund = euros(order.refund_cents)
    return shown(Cancellation, order, changed=changed, refund=refund, currency=CURRENCY)


_COUNTRY = "Country, ISO 3166-1 alpha-2, capitals, such as AT."


class UpdateShippingAddress(Arguments, frozen=True, kw_only=True):
    order_id: OrderId
    street: Annotated[
        str,
        Meta(min_length=1, max_length=100, description="Street and house number.", examples=["Seeweg 14"]),
    ]
    postal_code: Annotated[
        str, Meta(min_length=2, max_length=12, description="Postal code.", examples=["6020"])
    ]
    city: Annotated[str, Meta(min_length=1, max_length=60, description="City.", examples=["Innsbruck"])]
    country: Annotated[
        Annotated[str, Meta(pattern="^[A-Z]{2}" + END)] | None, Meta(description=_COUNTRY, examples=["AT"])
    ] = None


class AddressChange(msgspec.Struct, frozen=True):
    """Where the order goes after the call."""

    order_id: str
    changed: Annotated[bool, Meta(description="False if it went to this address already.")]
    shipping_address: Address


@tool("Order Status", "Change the shipping address", Effect.REPLACES, asks_for=("country",))
def update_shipping_address(shop: Shop, arguments: UpdateShippingAddress) -> AddressChange:
    """Replace the shipping address of an order that is still processing; needs the whole new address. A
    country that is not known is left out: the person is asked for it. Fails for orders that have been
    shipped. The customer's own address stays as it is.
    """
    if arguments.country is None:
        raise not_given("country", _COUNTRY)
    address = shown(Address, arguments)
    changed = shop.readdress(arguments.order_id, address)
    return AddressChange(arguments.order_id, changed, address)


TOOLS = (get_order, list_customer_orders, track_shipment, cancel_order, update_shipping_address)
