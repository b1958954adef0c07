"""Where a change is written down."""

from collections.abc import Awaitable
from typing import Any, Protocol

from runtime.postgres import Connection


class Note(Protocol):
    """Adds an audit row in the transaction of `conn`; `administration.Admin.note` is one.

    It is handed in, because only `administration` writes to the audit log. The text of a document belongs in
    no row.
    """

    def __call__(
        self, conn: Connection, action: str, kind: str, subject: str, *, before: Any = None, after: Any = None
    ) -> Awaitable[None]: ...
