"""Define support tickets and help articles, and search the articles."""

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
    """A support ticket; `waiting` means that the customer has to answer."""

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
    """A help page of the shop."""

    article_id: str
    title: str
    topic: Topic
    text: str


def search(articles: tuple[Article, ...], query: str) -> list[Article]:
    """Return the articles with a word of the query, best first; title words count double."""
    wanted = _find_stems(query) - _FILLERS
    hits = [
        (
            len(wanted & _find_stems(article.text))
            + 2 * len(wanted & _find_stems(f"{article.title} {article.topic}")),
            article,
        )
        for article in articles
    ]
    return [article for score, article in sorted(hits, key=lambda hit: -hit[0]) if score]


def _find_stems(text: str) -> set[str]:
    """Return the words without endings: "returns", "returned" and "returning" are one stem."""
    return {re.sub(r"(?<=\w{4})(ing|ed|es|s)$", "", word) for word in re.findall(r"\w+", text.casefold())}


_FILLERS = _find_stems(
    "a an and are be can do does for from how i in is it long me my of on or the to what when you your"
)
