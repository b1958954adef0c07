"""Following a list over its pages. No I/O."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from agentchat_client.calls import Call
from agentchat_client.models import Page

T = TypeVar("T")

_LARGEST_PAGE = 100


class Paging(Generic[T]):
    """The place in one list: ask for `next_call()`, hand its page to `take()`, until there is no next call.

    `limit` is the most items wanted in all; None wants every one. `query` goes with each call.
    """

    def __init__(self, path: str, limit: int | None = None, query: Mapping[str, str] | None = None) -> None:
        self._path = path
        self._query = dict(query or {})
        self._left = limit
        self._cursor: str | None = None
        self._ended = False

    def next_call(self) -> Call | None:
        size = _LARGEST_PAGE if self._left is None else min(self._left, _LARGEST_PAGE)
        if self._ended or size <= 0:
            return None
        query = {**self._query, "limit": str(size)}
        if self._cursor is not None:
            query["cursor"] = self._cursor
        return Call(method="GET", path=self._path, query=query)

    def take(self, page: Page[T]) -> tuple[T, ...]:
        """The items of this page that are wanted."""
        items = page.data[: self._left]
        if self._left is not None:
            self._left -= len(items)
        self._cursor = page.next_cursor
        self._ended = page.next_cursor is None
        return items
