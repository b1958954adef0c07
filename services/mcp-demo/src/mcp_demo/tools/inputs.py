"""The arguments that several tools share: ids, periods, limits, each with its description for the model."""

from datetime import date
from typing import Annotated

import msgspec
from msgspec import Meta

from mcp_demo.shop.calendar import OPENED, TODAY
from mcp_demo.shop.catalogue import Category

END = r"$(?!\n)"
"""The end of a text in Python too, whose `$` is also before a last newline; ECMA 262 reads it as `$`."""

OrderId = Annotated[
    str, Meta(pattern="^ORD-[0-9]{4}" + END, description="Id of the order.", examples=["ORD-1028"])
]
CustomerId = Annotated[
    str, Meta(pattern="^CUST-[0-9]{3}" + END, description="Id of the customer.", examples=["CUST-001"])
]
ProductId = Annotated[
    str, Meta(pattern="^PRD-[0-9]{3}" + END, description="Id of the product.", examples=["PRD-113"])
]
TicketId = Annotated[
    str, Meta(pattern="^TCK-[0-9]{3,6}" + END, description="Id of the support ticket.", examples=["TCK-502"])
]
Limit = Annotated[int, Meta(ge=1, le=50, description="How many entries to return at most, from 1 to 50.")]
OfCategory = Annotated[
    Category | None, Meta(description="Only this product category. Leave out for all of them.")
]
MaxPrice = Annotated[
    Annotated[float, Meta(gt=0, le=100_000)] | None,
    Meta(description="Only products that cost at most this, in EUR. Leave out for any price."),
]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of every tool's arguments: an unknown argument is refused by name."""


class PeriodArguments(Arguments, frozen=True, kw_only=True):
    """The days that a figure is about, and the products."""

    date_from: Annotated[
        date | None,
        Meta(
            description=f"First day, YYYY-MM-DD. Left out: 30 days up to date_to. Records start on {OPENED}.",
            examples=["2026-10-01"],
        ),
    ] = None
    date_to: Annotated[
        date | None,
        Meta(
            description=f"Last day, included, YYYY-MM-DD. Left out: today, which is {TODAY} in this shop.",
            examples=["2026-10-31"],
        ),
    ] = None
    category: OfCategory = None
