"""What the shop refuses. Each error's text says what is wrong, and what would be right.

ShopError
├── UnknownIdError     no record has this id
├── ForeignOrderError  the order is another customer's
├── OrderClosedError   the order is too far along for the change
├── TicketFullError    the ticket holds as many comments as it can
├── NotGivenError      something is missing that nobody has given
└── BadPeriodError     the dates do not make a period that can be answered for
"""

import difflib
from collections.abc import Iterable


class ShopError(Exception):
    """Something asked of the shop cannot be done."""


class UnknownIdError(ShopError):
    """No record of `kind` has the id `value`; `known` are the ids there are."""

    def __init__(self, kind: str, value: str, known: Iterable[str]) -> None:
        super().__init__(kind, value)
        self.kind = kind
        self.value = value
        self.known = sorted(known)

    def __str__(self) -> str:
        near = difflib.get_close_matches(self.value.strip().upper(), self.known, n=3, cutoff=0.7)
        nearest = f"; the nearest are {', '.join(sorted(near))}" if near else ""
        span = f"{self.kind} ids run from {self.known[0]} to {self.known[-1]}"
        return f"There is no {self.kind} {self.value!r}: {span}{nearest}."


class ForeignOrderError(ShopError):
    """The order is not one of the customer's `own`."""

    def __init__(self, order_id: str, customer_id: str, own: Iterable[str]) -> None:
        super().__init__(order_id, customer_id)
        self.order_id = order_id
        self.customer_id = customer_id
        self.own = sorted(own)

    def __str__(self) -> str:
        own = ", ".join(self.own) or "none"
        return f"{self.order_id} is not an order of {self.customer_id}, whose orders are {own}."


class OrderClosedError(ShopError):
    """`change` cannot be done to an order in the state `status`."""

    def __init__(self, order_id: str, status: str, change: str) -> None:
        super().__init__(order_id, status, change)
        self.order_id = order_id
        self.status = status
        self.change = change

    def __str__(self) -> str:
        return (
            f"Order {self.order_id} cannot be {self.change}: its status is {self.status}, and only an order "
            "that is still processing can be. Open a support ticket for it instead."
        )


class TicketFullError(ShopError):
    """The ticket holds `limit` comments."""

    def __init__(self, ticket_id: str, limit: int) -> None:
        super().__init__(ticket_id, limit)
        self.ticket_id = ticket_id
        self.limit = limit

    def __str__(self) -> str:
        return f"Ticket {self.ticket_id} already holds {self.limit} comments: open a new ticket instead."


class NotGivenError(ShopError):
    """What an `argument` of that `meaning` holds is needed, and was not given."""

    def __init__(self, argument: str, meaning: str) -> None:
        super().__init__(argument, meaning)
        self.argument = argument
        self.meaning = meaning

    def __str__(self) -> str:
        return f"The argument {self.argument} is missing, so nothing was changed: {self.meaning}"


class BadPeriodError(ShopError):
    """The requested dates cannot be answered; the text says why and what to do."""
