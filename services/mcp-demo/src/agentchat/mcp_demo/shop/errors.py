"""What the shop refuses, in words that say what is wrong and what would be right."""

import difflib
from collections.abc import Iterable

from mcp.server.mcpserver.exceptions import ToolError


class ShopError(ToolError):
    """The shop refuses what was asked of it; the SDK shows the text to the model."""


def unknown_id(kind: str, value: str, known: Iterable[str]) -> ShopError:
    """No record of `kind` has the id `value`; `known` are the ids there are."""
    ids = sorted(known)
    near = difflib.get_close_matches(value.strip().upper(), ids, n=3, cutoff=0.7)
    nearest = f"; the nearest are {', '.join(sorted(near))}" if near else ""
    return ShopError(f"There is no {kind} {value!r}: {kind} ids run from {ids[0]} to {ids[-1]}{nearest}.")


def foreign_order(order_id: str, customer_id: str, own: Iterable[str]) -> ShopError:
    """The order is not one of the customer's `own`."""
    orders = ", ".join(sorted(own)) or "none"
    return ShopError(f"{order_id} is not an order of {customer_id}, whose orders are {orders}.")


def order_closed(order_id: str, status: str, change: str) -> ShopError:
    """`change` cannot be done to an order in the state `status`."""
    return ShopError(
        f"Order {order_id} cannot be {change}: its status is {status}, and only an order that is still "
        "processing can be. Open a support ticket for it instead."
    )


def ticket_full(ticket_id: str, limit: int) -> ShopError:
    """The ticket holds `limit` comments."""
    return ShopError(f"Ticket {ticket_id} already holds {limit} comments: open a new ticket instead.")


def not_given(argument: str, meaning: str) -> ShopError:
    """What an `argument` of that `meaning` holds is needed, and was not given."""
    return ShopError(f"The argument {argument} is missing, so nothing was changed: {meaning}")
