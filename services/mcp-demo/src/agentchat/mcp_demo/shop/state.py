"""The shop as one object: fixed records, and the orders, stock and tickets that tools can change.

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
from agentchat.mcp_demo.shop.errors import foreign_order, order_closed, ticket_full, unknown_id
from agentchat.mcp_demo.shop.orders import Closed, Order
from agentchat.mcp_demo.shop.support import Article, Author, Comment, Priority, Ticket, TicketCategory

T = TypeVar("T")

MAX_OPENED_TICKETS = 1000
MAX_COMMENTS = 100


class Shop:
    """The records by id. Lookups raise ShopError; so does each change for what it refuses."""

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

    def product(self, product_id: str) -> Product:
        return _lookup("product", self.products, product_id)

    def customer(self, customer_id: str) -> Customer:
        return _lookup("customer", self.customers, customer_id)

    def order(self, order_id: str) -> Order:
        return _lookup("order", self.orders, order_id)

    def ticket(self, ticket_id: str) -> Ticket:
        return _lookup("ticket", self.tickets, ticket_id)

    def rating(self, product_id: str) -> Rating:
        return rate(self.reviews, product_id)

    def address(self, order: Order) -> Address:
        """Where the order goes."""
        return order.address or self.customers[order.customer_id].address

    def orders_of(self, customer_id: str) -> list[Order]:
        """A customer's orders, newest first."""
        orders = [order for order in self.orders.values() if order.customer_id == customer_id]
        return sorted(orders, key=lambda order: order.placed_at, reverse=True)

    def cancel(self, order_id: str, reason: str) -> bool:
        """Cancel an order and put its goods back into stock; False if it was cancelled before.

        Raises ShopError unless its status is processing.
        """
        order = self.order(order_id)
        if order.status == "cancelled":
            return False
        if order.status != "processing":
            raise order_closed(order_id, order.status, "cancelled")
        self.orders[order_id] = replace(order, status="cancelled", closed=Closed(TODAY, reason))
        for item in order.items:
            product = self.products[item.product_id]
            self.products[item.product_id] = replace(product, stock=product.stock + item.quantity)
        return True

    def readdress(self, order_id: str, address: Address) -> bool:
        """Send an order elsewhere; False if it goes there already.

        Raises ShopError unless its status is processing.
        """
        order = self.order(order_id)
        if order.status != "processing":
            raise order_closed(order_id, order.status, "sent to another address")
        if self.address(order) == address:
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
        """Open a ticket. Of those opened since the start the newest 1000 are kept.

        Raises ShopError where the order is not the customer's.
        """
        own = {order.order_id for order in self.orders_of(self.customer(customer_id).customer_id)}
        if order_id is not None and self.order(order_id).order_id not in own:
            raise foreign_order(order_id, customer_id, own)
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

    def comment(self, ticket_id: str, author: Author, text: str) -> Ticket:
        """Add a comment: the customer's opens the ticket again, support's leaves it waiting for the customer.

        Raises ShopError at 100 comments.
        """
        ticket = self.ticket(ticket_id)
        if len(ticket.comments) >= MAX_COMMENTS:
            raise ticket_full(ticket_id, MAX_COMMENTS)
        changed = replace(
            ticket,
            status="open" if author == "customer" else "waiting",
            comments=(*ticket.comments, Comment(author, NOW, text)),
        )
        self.tickets[ticket_id] = changed
        return changed


def open_shop() -> Shop:
    return Shop(
        products=_load("products", Product),
        customers=_load("customers", Customer),
        orders=_load("orders", Order),
        tickets=_load("tickets", Ticket),
        reviews=_load("reviews", Review),
        articles=_load("articles", Article),
    )


def _lookup(kind: str, known: dict[str, T], key: str) -> T:
    try:
        return known[key]
    except KeyError:
        raise unknown_id(kind, key, known) from None


def _load(name: str, kind: type[T]) -> tuple[T, ...]:
    """All records of `records/<name>.json`, checked against `kind`."""
    text = resources.files("agentchat.mcp_demo.shop").joinpath("records", f"{name}.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[kind, ...])  # type: ignore[valid-type]
