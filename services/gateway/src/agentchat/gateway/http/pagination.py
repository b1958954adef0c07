"""Read and write the pages of lists: query parameters `limit` and `cursor`, and what a cursor holds."""

import base64
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from litestar.params import QueryParameter

from agentchat.gateway.http.problems import build_field_refusal

MAX_LIMIT = 100

Limit = Annotated[
    int,
    QueryParameter(
        ge=1,
        le=MAX_LIMIT,
        description="The most that a page holds; one of messages may end before it, by bytes.",
    ),
]
Cursor = Annotated[
    str | None,
    QueryParameter(description="The `next_cursor` of the page before; empty or absent for the first page."),
]
NextCursor = Annotated[str | None, msgspec.Meta(description="Null on the last page.")]

T = TypeVar("T")


def take_first_page(
    rows: Sequence[T], limit: int, position: Callable[[T], object]
) -> tuple[tuple[T, ...], str | None]:
    """Return the page of rows of which one more than `limit` was read, and the cursor of the page after.

    `position`: That of a row, where the next page continues.
    """
    more = position(rows[limit - 1]) if len(rows) > limit else None
    return tuple(rows[:limit]), encode_next_cursor(more)


def encode_next_cursor(position: object) -> str | None:
    """Return the cursor of the page after `position`, in a form that callers do not read; None for None."""
    if position is None:
        return None
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode()


def decode_position(cursor: str | None, kind: Any) -> Any:
    """Return the position in a cursor that we gave out, as a `kind`; None for the first page.

    Raises Refusal: 400.
    """
    if not cursor:
        return None
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(data.replace(b"\\u0000", b"?"), type=kind)  # no position holds NUL
    except (ValueError, RecursionError, msgspec.DecodeError):
        message = "This is not a cursor that the service has given out."
        raise build_field_refusal("cursor", message) from None
