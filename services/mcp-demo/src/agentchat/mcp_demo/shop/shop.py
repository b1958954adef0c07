"""Hold the shop's records, and change orders, stock and tickets.

Changes live in the memory of the process and end with it. Every method is synchronous, so that on the one
event loop each call sees and leaves a consistent state.
"""

from importlib import resources
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from agentchat.mcp_demo.shop.calendar import NOW, TODAY
from agentchat.mcp_demo.shop.catalogue import Product, Rating, Review, rate
from agentchat.mcp_demo.shop.customers import Address, Customer
from agentchat.mcp_demo.shop.errors import (
    build_foreign_order_error,
    build_order_closed_error,
    build_ticket_full_error,
    build_unknown_id_error,
)
from agentchat.mcp_demo.shop.orders import Closed, Order
from agentchat.mcp_demo.shop.support import Article, Author, Comment, Priority, Ticket, TicketCategory

T = TypeVar("T")

MAX_OPENED_TICKETS = 1000
MAX_COMMENTS = 100


class Shop:
    """The records by id. Every method raises ShopError for an unknown id or a refused change."""

    def __init__(
        self,
        products: tuple[Product, ...],
        customers: tuple[Customer, ...],
        orders: tuple[Order, ...],
        tickets: tuple[Ticket, ...],
        reviews: tuple[Review, ...],
        articles: tuple[Article, ...],
    ) -> None:
        self.products = {product.product_id: product for product in products}
        self.customers = {customer.customer_id: customer for customer in customers}
        self.orders = {order.order_id: order for order in orders}
        self.tickets = {ticket.ticket_id: ticket for ticket in tickets}
        self.reviews = reviews
        self.articles = articles
        self._opened: list[str] = []
        self._next_ticket = 1 + max(int(ticket.ticket_id[4:]) for ticket in tickets)

    def get_product(self, product_id: str) -> Product:
        """Return the product with this id."""
        return _look_up("product", self.products, product_id)

    def get_customer(self, customer_id: str) -> Customer:
        """Return the customer with this id."""
        return _look_up("customer", self.customers, customer_id)

    def get_order(self, order_id: str) -> Order:
        """Return the order with this id."""
        return _look_up("order", self.orders, order_id)

    def get_ticket(self, ticket_id: str) -> Ticket:
        """Return the ticket with this id."""
        return _look_up("ticket", self.tickets, ticket_id)

    def get_rating(self, product_id: str) -> Rating:
        """Return the rating of a product."""
        return rate(self.reviews, product_id)

    def get_address(self, order: Order) -> Address:
        """Return the shipping address of an order."""
        return order.address or self.customers[order.customer_id].address

    def list_orders(self, customer_id: str) -> list[Order]:
        """Return a customer's orders, newest first."""
        orders = [order for order in self.orders.values() if order.customer_id == customer_id]
        return sorted(orders, key=lambda order: order.placed_at, reverse=True)

    def cancel(self, order_id: str, reason: str) -> bool:
        """Cancel an order and restock its goods; return False if it was cancelled before.

        Raises ShopError unless its status is processing.
        """
        order = self.get_order(order_id)
        if order.status == "cancelled":
            return False
        if order.status != "processing":
            raise build_order_closed_error(order_id, order.status, "cancelled")
        self.orders[order_id] = replace(order, status="cancelled", closed=Closed(TODAY, reason))
        for item in order.items:
            product = self.products[item.product_id]
            self.products[item.product_id] = replace(product, stock=product.stock + item.quantity)
        return True

    def readdress(self, order_id: str, address: Address) -> bool:
        """Change the shipping address of an order; return False if it is the same already.

        Raises ShopError unless its status is processing.
        """
        order = self.get_order(order_id)
        if order.status != "processing":
            raise build_order_closed_error(order_id, order.status, "sent to another address")
        if self.get_address(order) == address:
            return False
        self.orders[order_id] = replace(order, address=address)
        return True

    def open_ticket(
        self,
        customer_id: str,
        order_id: str | None,
        category: TicketCategory,
        priority: Priority,
        subject: str,
        message: str,
    ) -> Ticket:
        """Open a ticket. The newest 1000 opened tickets are kept.

        Raises ShopError if the order is not the customer's.
        """
        own = {order.order_id for order in self.list_orders(self.get_customer(customer_id).customer_id)}
        if order_id is not None and self.get_order(order_id).order_id not in own:
            raise build_foreign_order_error(order_id, customer_id, own)
        ticket = Ticket(
            ticket_id=f"TCK-{self._next_ticket}",
            customer_id=customer_id,
            order_id=order_id,
            category=category,
            priority=priority,
            status="open",
            subject=subject,
            opened_at=NOW,
            comments=(Comment("customer", NOW, message),),
        )
        self._next_ticket += 1
        self.tickets[ticket.ticket_id] = ticket
        self._opened.append(ticket.ticket_id)
        if len(self._opened) > MAX_OPENED_TICKETS:
            del self.tickets[self._opened.pop(0)]
        return ticket

    def add_comment(self, ticket_id: str, author: Author, text: str) -> Ticket:
        """Add a comment: the customer's reopens the ticket, support's leaves it waiting.

        Raises ShopError at 100 comments.
        """
        ticket = self.get_ticket(ticket_id)
        if len(ticket.comments) >= MAX_COMMENTS:
            raise build_ticket_full_error(ticket_id, MAX_COMMENTS)
        changed = replace(
            ticket,
            status="open" if author == "customer" else "waiting",
            comments=(*ticket.comments, Comment(author, NOW, text)),
        )
        self.tickets[ticket_id] = changed
        return changed


def open_shop() -> Shop:
    """Return a shop with the example records."""
    return Shop(
        products=_load("products", Product),
        customers=_load("customers", Customer),
        orders=_load("orders", Order),
        tickets=_load("tickets", Ticket),
        reviews=_load("reviews", Review),
        articles=_load("articles", Article),
    )


def _look_up(kind: str, known: dict[str, T], key: str) -> T:
    try:
        return known[key]
    except KeyError:
        raise build_unknown_id_error(kind, key, known) from None


def _load(name: str, kind: type[T]) -> tuple[T, ...]:
    """Load the records of `records/<name>.json`, validated as `kind`."""
    text = resources.files("agentchat.mcp_demo.shop").joinpath("records", f"{name}.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[kind, ...])  # type: ignore[valid-type]
