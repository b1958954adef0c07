"""Define orders, their items and their shipments."""

from datetime import date, datetime
from typing import Literal

import msgspec

from agentchat.mcp_demo.shop.customers import Address

Status = Literal["processing", "shipped", "delivered", "cancelled", "returned"]
Payment = Literal["card", "paypal", "invoice"]
Carrier = Literal["DHL", "DPD", "PostNord", "GLS"]

FREE_DELIVERY_FROM_CENTS = 7500
DELIVERY_CENTS = 590


class OrderItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of an order, at the price of the day it was placed."""

    product_id: str
    quantity: int
    unit_price_cents: int

    @property
    def cents(self) -> int:
        """Return the total of the line."""
        return self.quantity * self.unit_price_cents


class Shipment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parcel of an order."""

    carrier: Carrier
    tracking_number: str
    shipped_on: date
    expected_on: date
    delivered_on: date | None


class Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The day and the reason of a cancellation or return."""

    on: date
    reason: str


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An order. Without an address of its own it goes to the customer's address."""

    order_id: str
    customer_id: str
    placed_at: datetime
    payment_method: Payment
    status: Status
    items: tuple[OrderItem, ...]
    shipment: Shipment | None = None
    closed: Closed | None = None
    address: Address | None = None

    @property
    def goods_cents(self) -> int:
        """Return the total of the items."""
        return sum(item.cents for item in self.items)

    @property
    def delivery_cents(self) -> int:
        """Return the delivery charge: none from 75 euros on."""
        return 0 if self.goods_cents >= FREE_DELIVERY_FROM_CENTS else DELIVERY_CENTS

    @property
    def total_cents(self) -> int:
        """Return goods and delivery."""
        return self.goods_cents + self.delivery_cents

    @property
    def refund_cents(self) -> int:
        """Goods and delivery of a cancelled order, the goods of a returned one, else nothing."""
        match self.status:
            case "cancelled":
                return self.total_cents
            case "returned":
                return self.goods_cents
            case _:
                return 0
