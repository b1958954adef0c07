"""With what an administrator works, and who it is."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from administration.admin_rows import record
from administration.errors import outcomes
from bus import Bus
from contracts.admin_errors import Unavailable
from directory.secrets import Sealer
from knowledge.embedding.embedder import Embedder
from limits import Limiter
from net_guard import Guard
from runtime import postgres
from runtime.postgres import Connection, Pool

_SECONDS = 10.0


class Admin(msgspec.Struct, frozen=True, kw_only=True):
    """`actor` stands in the audit rows: "admin-api", "ada@cli".

    Without `bus` no conversation can be deleted and no agent checked. `embedder` is the one that is set,
    whether or not the database can hold its vectors. `model_hosts` judges the agents' base URLs, and
    `tool_hosts` the addresses of their tool servers, as orchestrators and tool-runners will at each call.
    """

    pool: Pool
    sealer: Sealer
    actor: str
    bus: Bus | None = None
    limiter: Limiter | None = None
    embedder: Embedder | None = None
    model_hosts: Guard = msgspec.field(default_factory=lambda: Guard(()))
    tool_hosts: Guard = msgspec.field(default_factory=lambda: Guard(()))

    async def note(
        self, conn: Connection, action: str, kind: str, subject: str, *, before: Any = None, after: Any = None
    ) -> None:
        """Add an audit row by this actor, in the caller's transaction: see `rows.record`."""
        await record(conn, self.actor, action, kind, subject, before=before, after=after)

    @contextlib.asynccontextmanager
    async def connection(self, seconds: float = _SECONDS) -> AsyncIterator[Connection]:
        """A connection for at most `seconds`; what the libraries below raise in the block becomes AdminError.

        Raises DatabaseUnavailable.
        """
        with outcomes():
            async with postgres.connection(self.pool, seconds=seconds) as conn:
                yield conn

    @contextlib.asynccontextmanager
    async def transaction(self, seconds: float = _SECONDS) -> AsyncIterator[Connection]:
        """The same, all within one transaction."""
        async with self.connection(seconds) as conn, conn.transaction():
            yield conn

    def need_bus(self) -> Bus:
        """The bus. Raises Unavailable where there is none."""
        if self.bus is None:
            raise Unavailable("this needs the bus, and none was given")
        return self.bus
