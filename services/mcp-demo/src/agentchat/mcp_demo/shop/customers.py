"""Define the shop's customers: invented people at reserved example addresses (RFC 2606)."""

from datetime import date
from typing import Literal

import msgspec

Tier = Literal["basic", "silver", "gold"]


class Address(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A shipping address; `country` is ISO 3166-1 alpha-2."""

    street: str
    postal_code: str
    city: str
    country: str


class Customer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person with an account at the shop."""

    customer_id: str
    name: str
    email: str
    tier: Tier
    member_since: date
    address: Address


def find(customers: dict[str, Customer], query: str) -> list[Customer]:
    """Find customers by id, e-mail address or part of a name, ordered by id."""
    words = query.casefold().split()
    exact = [c for c in customers.values() if query.strip().casefold() in (c.customer_id.lower(), c.email)]
    return exact or [c for c in customers.values() if all(word in c.name.casefold() for word in words)]
