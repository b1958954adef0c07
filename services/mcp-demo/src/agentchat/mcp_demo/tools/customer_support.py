"""Define the tools of Customer Support: customers, tickets and help pages."""

from typing import Annotated

from pydantic import Field

from agentchat.mcp_demo.shop import Shop, customers, support
from agentchat.mcp_demo.tools.category import Category
from agentchat.mcp_demo.tools.results import Json, as_json
from agentchat.mcp_demo.tools.tool_parameters import CustomerId, OrderId, TicketId

Message = Annotated[str, Field(min_length=1, max_length=4000, description="The text, up to 4000 characters.")]


def add_tools(category: Category, shop: Shop) -> None:
    """Add the tools of this category."""

    @category.add_reader("Find a customer")
    async def find_customer(
        query: Annotated[
            str,
            Field(
                min_length=1,
                max_length=100,
                description="A customer id, an e-mail address, or a name or part of one.",
                examples=["anna.keller@example.com"],
            ),
        ],
    ) -> Json:
        """Find a customer by id, e-mail address or name.

        Returns address, loyalty tier, order ids and ticket ids. Use it first when only a name or an e-mail
        address is known.
        """
        found = customers.find(shop.customers, query)
        views = [
            as_json(customer)
            | {
                "order_ids": [order.order_id for order in shop.list_orders(customer.customer_id)],
                "ticket_ids": [
                    t.ticket_id for t in shop.tickets.values() if t.customer_id == customer.customer_id
                ],
            }
            for customer in found
        ]
        return {"matching": len(found), "customers": views}

    @category.add_creator("Open a support ticket")
    async def open_support_ticket(
        customer_id: CustomerId,
        subject: Annotated[
            str,
            Field(
                min_length=3,
                max_length=120,
                description="The subject, in one line.",
                examples=["Zip stuck"],
            ),
        ],
        message: Message,
        category: Annotated[support.TicketCategory, Field(description="What kind of concern it is.")],
        order_id: Annotated[
            OrderId | None,
            Field(description="The customer's order it is about, if any.", examples=["ORD-1028"]),
        ] = None,
        priority: Annotated[
            support.Priority, Field(description="high only if it cannot wait a day.")
        ] = "normal",
    ) -> Json:
        """Open a support ticket for a customer, about an order or anything else.

        Every call opens another ticket: call it once for each concern, and tell the customer the ticket's id.
        """
        ticket = shop.open_ticket(customer_id, order_id, category, priority, subject, message)
        return _show_ticket(shop, ticket)

    @category.add_reader("Get a support ticket")
    async def get_support_ticket(ticket_id: TicketId) -> Json:
        """Show a support ticket by its id.

        Status, priority, subject, the order it is about and all comments. The tickets of a customer are
        listed by find_customer, those of an order by get_order.
        """
        return _show_ticket(shop, shop.get_ticket(ticket_id))

    @category.add_creator("Comment on a support ticket")
    async def add_ticket_comment(
        ticket_id: TicketId,
        message: Message,
        author: Annotated[support.Author, Field(description="Whose words they are.")] = "customer",
    ) -> Json:
        """Add a comment to a support ticket and return the ticket.

        The customer's comment opens a resolved or waiting ticket again; support's leaves it waiting for the
        customer. Every call adds another comment.
        """
        return _show_ticket(shop, shop.add_comment(ticket_id, author, message))

    @category.add_reader("Search the help pages")
    async def search_help_articles(
        query: Annotated[
            str,
            Field(
                min_length=2,
                max_length=200,
                description="What to look for.",
                examples=["how long can I return"],
            ),
        ],
        topic: Annotated[
            support.Topic | None, Field(description="Only this topic. Leave out for all of them.")
        ] = None,
        limit: Annotated[int, Field(ge=1, le=8, description="How many articles at most, from 1 to 8.")] = 3,
    ) -> Json:
        """Search the shop's help pages.

        Delivery, returns, cancelling, guarantee, payment, sizes, loyalty tiers. Use it for questions about
        the shop's rules before answering from general knowledge.
        """
        found = [
            article for article in support.search(shop.articles, query) if topic in (None, article.topic)
        ]
        all_titles = [] if found else [article.title for article in shop.articles]
        return {"articles": as_json(found[:limit]), "all_titles": all_titles}


def _show_ticket(shop: Shop, ticket: support.Ticket) -> Json:
    customer = shop.customers[ticket.customer_id]
    head = {
        "ticket_id": ticket.ticket_id,
        "customer_id": customer.customer_id,
        "customer_name": customer.name,
    }
    return {**head, **as_json(ticket)}
