"""Define the parameters that several tools share, with their descriptions for the model."""

from datetime import date
from typing import Annotated

from pydantic import Field

from agentchat.mcp_demo.shop.calendar import OPENED, TODAY
from agentchat.mcp_demo.shop.catalogue import Category

OrderId = Annotated[
    str, Field(pattern="^ORD-[0-9]{4}$", description="Id of the order.", examples=["ORD-1028"])
]
CustomerId = Annotated[
    str, Field(pattern="^CUST-[0-9]{3}$", description="Id of the customer.", examples=["CUST-001"])
]
ProductId = Annotated[
    str, Field(pattern="^PRD-[0-9]{3}$", description="Id of the product.", examples=["PRD-113"])
]
TicketId = Annotated[
    str, Field(pattern="^TCK-[0-9]{3,6}$", description="Id of the support ticket.", examples=["TCK-502"])
]
Limit = Annotated[int, Field(ge=1, le=50, description="How many entries to return at most, from 1 to 50.")]
FewLimit = Annotated[
    int, Field(ge=1, le=10, description="How many products to return at most, from 1 to 10.")
]
OfCategory = Annotated[
    Category | None, Field(description="Only this product category. Leave out for all of them.")
]
MaxPrice = Annotated[
    Annotated[float, Field(gt=0, le=100_000)] | None,
    Field(description="Only products that cost at most this, in EUR. Leave out for any price."),
]
InStockOnly = Annotated[bool, Field(description="Leave out what is out of stock.")]
DateFrom = Annotated[
    date | None,
    Field(
        description=f"First day, YYYY-MM-DD. Left out: 30 days up to date_to. Records start on {OPENED}.",
        examples=["2026-10-01"],
    ),
]
DateTo = Annotated[
    date | None,
    Field(
        description=f"Last day, included, YYYY-MM-DD. Left out: today, which is {TODAY} in this shop.",
        examples=["2026-10-31"],
    ),
]
