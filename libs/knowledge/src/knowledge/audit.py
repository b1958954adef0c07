"""Who changes something, and where that is written down."""

from collections.abc import Awaitable
from typing import Any, Protocol

import msgspec

from runtime.postgres import Connection


class Record(Protocol):
    """Adds an audit row in the transaction of `conn`: `directory.administration.audit.record` is one.

    It is handed in, because the audit log is the directory's table and only the directory writes to it.
    """

    def __call__(
        self,
        conn: Connection,
        actor: str,
        action: str,
        kind: str,
        subject: str,
        *,
        before: Any = None,
        after: Any = None,
    ) -> Awaitable[None]: ...


class Audit(msgspec.Struct, frozen=True):
    """`actor` is who asks, as `administration` in the directory takes it."""

    actor: str
    record: Record

    async def note(
        self,
        conn: Connection,
        action: str,
        kind: str,
        subject: str,
        *,
        before: Any = None,
        after: Any = None,
    ) -> None:
        """One row, in the caller's transaction. The text of documents belongs in no row."""
        await self.record(conn, self.actor, action, kind, subject, before=before, after=after)
