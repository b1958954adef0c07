"""Support: tickets with their comments, and the articles of the help pages."""

import re
from typing import Literal

import msgspec

from agentchat.mcp_demo.shop.calendar import Instant

TicketCategory = Literal["delivery", "return", "product", "payment", "other"]
Priority = Literal["low", "normal", "high"]
TicketStatus = Literal["open", "waiting", "resolved"]
Author = Literal["customer", "support"]
Topic = Literal["delivery", "return", "order", "product", "payment", "account"]


class Comment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message of a ticket's conversation."""

    author: Author
    at: Instant
    text: str


class Ticket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A customer's concern; `waiting` means that the customer is to answer."""

    ticket_id: str
    customer_id: str
    order_id: str | None
    category: TicketCategory
    priority: Priority
    status: TicketStatus
    subject: str
    opened_at: Instant
    comments: tuple[Comment, ...]


class Article(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of the shop's help."""

    article_id: str
    title: str
    topic: Topic
    text: str


def search(articles: tuple[Article, ...], query: str) -> list[Article]:
    """The articles that hold a word of the query, best first; words of a title count double."""
    wanted = _stems(query) - _FILLERS
    hits = [
        (
            len(wanted & _stems(article.text)) + 2 * len(wanted & _stems(f"{article.title} {article.topic}")),
            article,
        )
        for article in articles
    ]
    return [article for score, article in sorted(hits, key=lambda hit: -hit[0]) if score]


def _stems(text: str) -> set[str]:
    """The words without their endings, so that "returns", "returned" and "returning" are one."""
    return {re.sub(r"(?<=\w{4})(ing|ed|es|s)$", "", word) for word in re.findall(r"\w+", text.casefold())}


_FILLERS = _stems(
    "a an and are be can do does for from how i in is it long me my of on or the to what when you your"
)
