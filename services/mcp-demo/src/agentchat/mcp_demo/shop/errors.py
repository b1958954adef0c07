"""Build the shop's errors, which tell the model what is wrong and what to do."""

import difflib
from collections.abc import Iterable

from mcp.server.mcpserver.exceptions import ToolError


class ShopError(ToolError):
    """The shop refuses a request; the SDK shows the text to the model."""


def build_unknown_id_error(kind: str, value: str, known: Iterable[str]) -> ShopError:
    """Say that no record of `kind` has the id `value`, and name the nearest ids."""
    ids = sorted(known)
    if not ids:
        return ShopError(f"There is no {kind} {value!r}.")
    near = difflib.get_close_matches(value.strip().upper(), ids, n=3, cutoff=0.7)
    nearest = f"; the nearest are {', '.join(sorted(near))}" if near else ""
    return ShopError(f"There is no {kind} {value!r}: {kind} ids run from {ids[0]} to {ids[-1]}{nearest}.")


def build_foreign_order_error(order_id: str, customer_id: str, own: Iterable[str]) -> ShopError:
    """Say that the order is not one of the customer's `own` orders."""
    orders = ", ".join(sorted(own)) or "none"
    return ShopError(f"{order_id} is not an order of {customer_id}, whose orders are {orders}.")


def build_order_closed_error(order_id: str, status: str, change: str) -> ShopError:
    """Say that an order with this `status` cannot be changed so."""
    return ShopError(
        f"Order {order_id} cannot be {change}: its status is {status}, and only an order that is still "
        "processing can be. Open a support ticket for it instead."
    )


def build_ticket_full_error(ticket_id: str, limit: int) -> ShopError:
    """Say that the ticket already holds `limit` comments."""
    return ShopError(f"Ticket {ticket_id} already holds {limit} comments: open a new ticket instead.")


def build_missing_error(argument: str, meaning: str) -> ShopError:
    """Say that a required argument is missing, with its meaning."""
    return ShopError(f"The argument {argument} is missing, so nothing was changed: {meaning}")
