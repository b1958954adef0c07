"""One address of the admin API: what it takes, what it does, and what it gives."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from administration import Admin
from administration.errors import Invalid, NotFound

PREFIX = "/admin/v1"
DEFAULT_LIMIT = 20
PAGING = ("limit", "cursor")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request, read: the parts of its path, its query, and its body as the route's own type."""

    path: dict[str, str]
    query: dict[str, Any]
    body: Any = None

    @property
    def paging(self) -> dict[str, Any]:
        """As the library's lists take it."""
        return {"after": self.query.get("cursor"), "limit": self.query.get("limit", DEFAULT_LIMIT)}

    @property
    def flags(self) -> dict[str, bool]:
        """`force` and `dry_run`, those of them that are asked for."""
        return {name: self.query[name] for name in ("force", "dry_run") if name in self.query}

    @property
    def version(self) -> int:
        """The version in the path. Raises NotFound."""
        text = self.path["version"]
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise NotFound("version", text[:20])
        return int(text)

    def chosen(self, *names: str) -> dict[str, Any]:
        """Parts of the query, None where they are left out."""
        return {name: self.query.get(name) for name in names}

    def needed(self, name: str) -> Any:
        """A part of the query that has to be there. Raises Invalid."""
        if name not in self.query:
            raise Invalid.of(name, "is required")
        return self.query[name]


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that has nothing to say."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """`query` names what the query string may hold. A body is optional where all that it may say is.

    `paged`: the answer is a page of `gives`. A Deletion is told only where it is a dry run, and is 204 else.
    """

    method: str
    path: str
    summary: str
    answer: Callable[[Admin, Asked], Awaitable[Any]]
    gives: Any
    status: int = 200
    body: type | None = None
    optional: bool = False
    max_bytes: int = 1024 * 1024
    query: tuple[str, ...] = ()
    paged: bool = False
    conflicts: bool = False

    @property
    def address(self) -> str:
        """The whole path, with its parts in braces."""
        return PREFIX + self.path
