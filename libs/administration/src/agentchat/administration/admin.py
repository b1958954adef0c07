"""Define an administrator's connections and identity, and translate the libraries' errors to AdminErrors."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, LiteralString

import msgspec

from agentchat.administration.audit_rows import record
from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.contracts.admin_errors import Conflict, Invalid, Unavailable
from agentchat.directory.agent_to_agent import read_agent_name
from agentchat.directory.errors import SealBroken
from agentchat.directory.secret_encryption import Sealer
from agentchat.knowledge.embedding.embedder import Embedder
from agentchat.net_guard import AddressRefused, Guard
from agentchat.net_guard.permitted_addresses import check_saved_url
from agentchat.runtime import postgres
from agentchat.runtime.postgres import Connection, DatabaseUnavailable, Pool

IS_IN_LIMIT: LiteralString = "(%(limited)s::text[] IS NULL OR account_id = ANY (%(limited)s))"
"""The condition of lists on `account_id`; its value is in `Admin.limit`."""

_SECONDS = 10.0
_UNOPENED = "the agent's secrets were sealed under another secret key; give its headers again"


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """Translate errors of the libraries in the block to AdminErrors."""
    try:
        yield
    except SealBroken:
        raise Conflict(_UNOPENED) from None
    except (BusUnavailable, DatabaseUnavailable) as error:
        raise Unavailable(f"a server does not answer: {error}") from error


class Admin(msgspec.Struct, frozen=True, kw_only=True):
    """An administrator; `actor` is named in audit rows, such as "admin-api" or "ada@cli".

    `account_ids` are the accounts that the administrator is limited to: see `account_limits`.
    Without `bus`, conversations cannot be deleted and agents cannot be checked. `embedder` is the configured
    one, even if the database cannot store its vectors. `model_hosts` checks the agents' base URLs and
    `tool_hosts` the addresses of their tool servers, as orchestrators and tool-runners do at each call.
    `currency` is that of the price table.
    """

    pool: Pool
    sealer: Sealer
    actor: str
    account_ids: tuple[str, ...] | None = None
    bus: Bus | None = None
    currency: str = ""
    embedder: Embedder | None = None
    model_hosts: Guard = msgspec.field(default_factory=lambda: Guard(()))
    tool_hosts: Guard = msgspec.field(default_factory=lambda: Guard(()))

    @property
    def limit(self) -> dict[str, list[str] | None]:
        """The value of `IS_IN_LIMIT`."""
        return {"limited": None if self.account_ids is None else list(self.account_ids)}

    async def note(
        self,
        conn: Connection,
        action: str,
        kind: str,
        subject: str,
        *,
        name: str | None = None,
        before: Any = None,
        after: Any = None,
    ) -> None:
        """Add an audit row by this actor, in the caller's transaction: see `audit_rows.record`."""
        await record(conn, self.actor, action, kind, subject, name=name, before=before, after=after)

    @contextlib.asynccontextmanager
    async def connection(self, seconds: float = _SECONDS) -> AsyncIterator[Connection]:
        """Open a connection for at most `seconds`; errors in the block become AdminErrors."""
        with translate_errors():
            async with postgres.acquire_connection(self.pool, seconds=seconds) as conn:
                yield conn

    @contextlib.asynccontextmanager
    async def transaction(self, seconds: float = _SECONDS) -> AsyncIterator[Connection]:
        """Open a connection with a transaction, for at most `seconds`."""
        async with self.connection(seconds) as conn, conn.transaction():
            yield conn

    def need_bus(self) -> Bus:
        """Return the bus. Raises Unavailable if there is none."""
        if self.bus is None:
            raise Unavailable("this operation needs NATS, which is not configured")
        return self.bus

    async def check_tool_url(self, url: str, field: str = "url") -> None:
        """Judge the address of a tool server as a call now would. Raises Invalid."""
        if read_agent_name(url) is not None:
            return
        await _check_callable(self.tool_hosts, url, field, "AGENTCHAT_MCP_ALLOW")

    async def check_model_url(self, url: str, field: str) -> None:
        """Judge the address of a model server as a call now would. Raises Invalid."""
        await _check_callable(self.model_hosts, url, field, "AGENTCHAT_MODEL_ALLOW")


async def _check_callable(guard: Guard, url: str, field: str, setting: str) -> None:
    try:
        await check_saved_url(guard, url)
    except AddressRefused as error:
        raise Invalid(field, f"may not be called: {error}; {setting} lists addresses of your own") from None
    except ValueError:
        return  # not well-formed: the configuration's own check says how
