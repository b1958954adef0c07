"""Customer Support: who a customer is, tickets, and the help pages."""

from datetime import date
from typing import Annotated

import msgspec
from msgspec import Meta

from mcp_demo.shop import Shop, customers, support
from mcp_demo.shop.calendar import Instant
from mcp_demo.shop.customers import Address, Tier
from mcp_demo.tools.inputs import Arguments, CustomerId, OrderId, TicketId
from mcp_demo.tools.tool import Effect, tool
from mcp_demo.tools.views import shown

Message = Annotated[str, Meta(min_length=1, max_length=4000, description="The text, up to 4000 characters.")]


class FindCustomer(Arguments, frozen=True, kw_only=True):
    query: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=100,
            description="A customer id, an e-mail address, or a name or part of one.",
            examples=["anna.keller@example.com"],
        ),
    ]


class CustomerView(msgspec.Struct, frozen=True):
    customer_id: str
    name: str
    email: str
    tier: Tier
    member_since: date
    address: Address
    order_ids: Annotated[list[str], Meta(description="Newest first.")]
    ticket_ids: Annotated[list[str], Meta(description="Oldest first.")]


class Customers(msgspec.Struct, frozen=True):
    """The customers who match; empty if there is none, at most 12."""

    matching: int
    customers: list[CustomerView]


@tool("Customer Support", "Find a customer", Effect.READS)
def find_customer(shop: Shop, arguments: FindCustomer) -> Customers:
    """Find a customer by id, e-mail address or name: address, loyalty tier, order ids and ticket ids.
    Use it first when only a name or an e-mail address is known.
    """
    found = customers.find(shop.customers, arguments.query)
    return Customers(
        matching=len(found),
        customers=[
            shown(
                CustomerView,
                one,
                order_ids=[order.order_id for order in shop.orders_of(one.customer_id)],
                ticket_ids=[t.ticket_id for t in shop.tickets.values() if t.customer_id == one.customer_id],
            )
            for one in found
        ],
    )


class OpenTicket(Arguments, frozen=True, kw_only=True):
    customer_id: CustomerId
    subject: Annotated[
        str,
        Meta(
            min_length=3, max_length=120, description="What it is about, in one line.", examples=["Zip stuck"]
        ),
    ]
    message: Message
    category: Annotated[support.TicketCategory, Meta(description="What kind of concern it is.")]
    order_id: Annotated[
        OrderId | None, Meta(description="The customer's order it is about, if any.", examples=["ORD-1028"])
    ] = None
    priority: Annotated[support.Priority, Meta(description="high only if it cannot wait a day.")] = "normal"


class TicketView(msgspec.Struct, frozen=True):
    """A support ticket with its conversation; `waiting` means that the customer is to answer."""

    ticket_id: str
    customer_id: str
    customer_name: str
    order_id: str | None
    category: support.TicketCategory
    priority: support.Priority
    status: support.TicketStatus
    subject: str
    opened_at: Instant
    comments: Annotated[tuple[support.Comment, ...], Meta(description="Oldest first.")]


@tool("Customer Support", "Open a support ticket", Effect.ADDS)
def open_support_ticket(shop: Shop, arguments: OpenTicket) -> TicketView:
    """Open a support ticket for a customer, about one of the customer's orders or about anything else.
    Every call opens another ticket: call it once for each concern, and tell the customer the ticket's
    id.
    """
    return _ticket_view(shop, shop.open_ticket(**msgspec.structs.asdict(arguments)))


class OneTicket(Arguments, frozen=True, kw_only=True):
    ticket_id: TicketId


@tool("Customer Support", "Get a support ticket", Effect.READS)
def get_support_ticket(shop: Shop, arguments: OneTicket) -> TicketView:
    """Show a support ticket by its id: status, priority, subject, the order it is about and all
    comments. The tickets of a customer are listed by find_customer, those of an order by get_order.
    """
    return _ticket_view(shop, shop.ticket(arguments.ticket_id))


class AddComment(Arguments, frozen=True, kw_only=True):
    ticket_id: TicketId
    message: Message
    author: Annotated[support.Author, Meta(description="Whose words they are.")] = "customer"


@tool("Customer Support", "Comment on a support ticket", Effect.ADDS)
def add_ticket_comment(shop: Shop, arguments: AddComment) -> TicketView:
    """Add a comment to a support ticket and return the ticket. The customer's comment opens a resolved
    or waiting ticket again; support's leaves it waiting for the customer. Every call adds another
    comment.
    """
    return _ticket_view(shop, shop.comment(arguments.ticket_id, arguments.author, arguments.message))


class HelpQuery(Arguments, frozen=True, kw_only=True):
    query: Annotated[
        str,
        Meta(
            min_length=2, max_length=200, description="What to look for.", examples=["how long can I return"]
        ),
    ]
    topic: Annotated[
        support.Topic | None, Meta(description="Only this topic. Leave out for all of them.")
    ] = None
    limit: Annotated[int, Meta(ge=1, le=8, description="How many articles at most, from 1 to 8.")] = 3


class HelpArticles(msgspec.Struct, frozen=True):
    """Articles that answer the query, best first; the titles of all where none does."""

    articles: list[support.Article]
    all_titles: Annotated[list[str], Meta(description="Filled only where nothing was found.")]


@tool("Customer Support", "Search the help pages", Effect.READS)
def search_help_articles(shop: Shop, arguments: HelpQuery) -> HelpArticles:
    """Search the shop's help pages: delivery, returns, cancelling, guarantee, payment, sizes, loyalty
    tiers. Use it for questions about the shop's rules before answering from general knowledge.
    """
    found = [
        article
        for article in support.search(shop.articles, arguments.query)
        if arguments.topic in (None, article.topic)
    ]
    return HelpArticles(
        articles=found[: arguments.limit],
        all_titles=[] if found else [article.title for article in shop.articles],
    )


def _ticket_view(shop: Shop, ticket: support.Ticket) -> TicketView:
    return shown(TicketView, ticket, customer_name=shop.customers[ticket.customer_id].name)


TOOLS = (find_customer, open_support_ticket, get_support_ticket, add_ticket_comment, search_help_articles)
