"""Pages of lists: `limit` and `cursor` of a query, and the cursor of the next page."""

from typing import Annotated, Any

import msgspec
from litestar import Request
from litestar.di import Provide

from gateway.http import query
from gateway.http.exchange import Exchange, of
from gateway.openapi.described import described, parameter

DEFAULT_LIMIT = 20
MAX_LIMIT = 100

LIMIT = parameter(
    "query",
    "limit",
    "The most that a page holds; one of messages may end before it, by bytes.",
    type="integer",
    minimum=1,
    maximum=MAX_LIMIT,
    default=DEFAULT_LIMIT,
)
CURSOR = parameter(
    "query",
    "cursor",
    "The `next_cursor` of the page before; empty or absent for the first page.",
    pattern="^[A-Za-z0-9_-]*$",
)

NextCursor = Annotated[str | None, msgspec.Meta(description="Null on the last page.")]


class PageRequest(msgspec.Struct, frozen=True):
    """Which page is asked for: at most `limit` rows after the position `after`, None for the first page."""

    limit: int
    after: Any


def paging_of(exchange: Exchange, position: type[Any]) -> PageRequest:
    """The page that the query asks for; `position` is the type of positions in this list. Raises Refusal."""
    given = query.parameters(exchange, "limit", "cursor")
    limit = query.whole_number("limit", given.get("limit", str(DEFAULT_LIMIT)), MAX_LIMIT)
    if not given.get("cursor"):
        return PageRequest(limit, None)
    data = query.position_of(given["cursor"])
    try:
        after = msgspec.json.decode(data.replace(b"\\u0000", b"?"), type=position)  # no position holds NUL
    except (ValueError, msgspec.DecodeError):
        raise query.wrong_cursor() from None
    return PageRequest(limit, after)


def paged_by(position: type[Any]) -> Provide:
    """The dependency of a handler whose list has positions of that type: a `PageRequest`. Raises Refusal."""

    @described(parameters=[LIMIT, CURSOR])
    async def provide(request: Request[Any, Any, Any]) -> PageRequest:
        return paging_of(of(request.scope), position)

    return Provide(provide)


def next_cursor(position: object) -> str | None:
    """The cursor of the page after `position`; None for None."""
    return None if position is None else query.cursor_of(msgspec.json.encode(position))
