"""A restaurant whose tools ask a person, made with the SDK: one code for each version of the protocol."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types import ElicitRequest, ElicitRequestURLParams, InputRequiredResult
from pydantic import BaseModel, Field

from tests.tool_runner.sdk_server import restrict_to_2025, serve_app

GUESTS = "For how many guests?"
NAME = "In which name, for {}?"
LINK = "Allow the restaurant to charge you."


class Guests(BaseModel):
    guests: int = Field(ge=1, le=12, description="How many come")


class Name(BaseModel):
    name: str = Field(min_length=1)


class Restaurant:
    """`booked` is what has been done, `paid` whether somebody has been at the link.

    `cook` reports its progress and then waits until it is `served`.
    """

    def __init__(self, link: str = "https://pay.example.com/allow") -> None:
        self.port = 0
        self.booked: list[str] = []
        self.paid = False
        self.link = link
        self.served = asyncio.Event()
        self._numbers = itertools.count(1)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def build_server(self) -> MCPServer:
        server = MCPServer("restaurant", log_level="ERROR")

        def ask_guests() -> Elicit[Guests]:
            return Elicit(GUESTS, Guests)

        def name_of(guests: Annotated[Guests, Resolve(ask_guests)]) -> Elicit[Name]:
            return Elicit(NAME.format(guests.guests), Name)

        def ask_name() -> Elicit[Name]:
            return Elicit(NAME.format("all"), Name)

        @server.tool()
        async def book(
            day: str, guests: Annotated[Guests, Resolve(ask_guests)], name: Annotated[Name, Resolve(name_of)]
        ) -> str:
            return self._book(day, guests, name)

        @server.tool()
        async def book_at_once(
            day: str, guests: Annotated[Guests, Resolve(ask_guests)], name: Annotated[Name, Resolve(ask_name)]
        ) -> str:
            return self._book(day, guests, name)

        @server.tool()
        async def nag(context: Context) -> str | InputRequiredResult:
            """It asks for ever."""
            if context.protocol_version == "2026-07-28":
                return self._ask_for_link(f"Again {next(self._numbers)}")
            answer = await context.elicit(f"Again {next(self._numbers)}", Name)
            return answer.action

        @server.tool()
        async def cook(context: Context) -> str:
            for step in range(1, 101):
                await context.report_progress(step, 100, f"Step {step}\x00")
            await self.served.wait()
            return "Bon appétit."

        @server.tool()
        async def pay(context: Context) -> str | InputRequiredResult:
            if self.paid:
                return "Paid."
            if context.protocol_version == "2026-07-28":
                answer: Any = (context.input_responses or {}).get("link")
                return f"You said {answer.action}." if answer else self._ask_for_link(LINK)
            asked = ElicitRequestURLParams(message=LINK, url=self.link, elicitation_id="e-1")
            raise UrlElicitationRequiredError([asked])

        return server

    def _book(self, day: str, guests: Guests, name: Name) -> str:
        self.booked.append(f"{day}, {guests.guests}, {name.name}")
        return f"Booked: {self.booked[-1]}."

    def _ask_for_link(self, message: str) -> InputRequiredResult:
        asked = ElicitRequest(params=ElicitRequestURLParams(message=message, url=self.link))
        return InputRequiredResult(input_requests={"link": asked}, request_state="opaque")


@asynccontextmanager
async def open_restaurant(
    *, newest: bool, link: str = "https://pay.example.com/allow"
) -> AsyncIterator[Restaurant]:
    """Run a restaurant that speaks 2026-07-28 if it is the `newest`, else 2025-11-25."""
    restaurant = Restaurant(link)
    app = restaurant.build_server().streamable_http_app()
    async with serve_app(app if newest else restrict_to_2025(app)) as port:
        restaurant.port = port
        yield restaurant
