"""Read agents as stored, with sealed secrets, and build what is shown of them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from agentchat.administration.admin import IS_IN_LIMIT, Admin
from agentchat.administration.admin_values import Agent, SecretHint, ShownFallback, ShownServer
from agentchat.administration.checked_input import parse_id
from agentchat.administration.row_pages import fetch_all, find_row
from agentchat.contracts.admin_errors import NotFound
from agentchat.directory.agent_config import (
    AgentSettings,
    Fallback,
    McpServer,
    seal_owner,
    unseal_fallback_keys,
)
from agentchat.directory.errors import SealBroken
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import Connection

_LONG_ENOUGH = 16  # characters of a secret, for its last four to give little away


Headers = Mapping[str, dict[str, str]]
"""The headers of each server, by its name; servers without any are left out."""


class Sealed(msgspec.Struct, frozen=True):
    """Sealed secrets of a version; None if there is none."""

    provider_key: bytes | None
    fallback_keys: bytes | None
    mcp_headers: bytes | None

    def __repr__(self) -> str:
        """Show which secrets are set."""
        return f"Sealed({', '.join(name for name in self.__struct_fields__ if getattr(self, name))})"


class AgentRow(msgspec.Struct, frozen=True, kw_only=True):
    """A version of an agent; `config` is JSON.

    `created_at` is the agent's, `changed_at` the version's.
    """

    agent_id: str
    account_id: str
    current_version: int
    disabled: bool
    created_at: datetime
    version: int
    changed_at: datetime
    config: str
    provider_key: bytes | None
    fallback_keys: bytes | None
    mcp_headers: bytes | None
    retention_days: int | None

    @property
    def sealed(self) -> Sealed:
        """The sealed secrets."""
        return Sealed(self.provider_key, self.fallback_keys, self.mcp_headers)

    @property
    def settings(self) -> AgentSettings:
        """The configuration, without headers."""
        return msgspec.json.decode(self.config, type=AgentSettings)

    def __repr__(self) -> str:
        """Leave out the configuration and the secrets."""
        return f"Row(agent_id={self.agent_id!r}, version={self.version})"


async def find_agent(
    conn: Connection, agent_id: str, version: int | None = None, *, lock: bool = False
) -> AgentRow:
    """Find a version of an agent, also of a disabled one; without `version` the current one.

    `lock` locks the agent's row until the transaction ends. It is locked before it is read: a single
    statement would read the version from before the wait. Raises NotFound for the agent and the version.
    """
    agent_id = parse_id("agent", agent_id)
    if version is not None and not -(2**31) <= version < 2**31:
        raise NotFound("version", str(version)[:20])
    held = " FOR UPDATE" if lock else ""
    cursor = await conn.execute(f"SELECT FROM agents WHERE agent_id = %s{held}", [agent_id])
    if await cursor.fetchone() is None:
        raise NotFound("agent", agent_id)
    asked = {"agent": agent_id, "version": version}
    return await find_row(conn, AgentRow, _VERSION, asked, "version", str(version))


async def list_agents(
    admin: Admin, conn: Connection, account_id: str | None, *, after: str = "", limit: int = 100
) -> list[AgentRow]:
    """List the current versions of agents of one account or of all, by id, after the id `after`."""
    asked = {"account": account_id, "after": after, "limit": limit, **admin.limit}
    return await fetch_all(conn, AgentRow, _AGENTS, asked)


async def list_agents_that_use(conn: Connection, account_id: str, knowledge_base_id: str) -> list[AgentRow]:
    """List the account's agents whose current versions use this knowledge base."""
    return await fetch_all(conn, AgentRow, _USING, [account_id, knowledge_base_id])


def build_agent(admin: Admin, row: AgentRow) -> Agent:
    """Build a version as it is shown, with hints at its secrets."""
    settings = row.settings
    fields: Mapping[str, Any] = msgspec.structs.asdict(settings) | {
        "id": row.agent_id,
        "mcp_servers": list_shown_servers(admin, row, settings.mcp_servers),
        "provider_key": _build_key_hint(admin, row),
        "fallbacks": _list_shown_fallbacks(admin, row, settings.fallbacks),
    }
    own = {name: getattr(row, name) for name in Agent.__struct_fields__ if name not in fields}
    return Agent(**fields, **own)


def list_shown_servers(
    admin: Admin, row: AgentRow, servers: tuple[McpServer, ...]
) -> tuple[ShownServer, ...]:
    """List the tool servers, with the names of their headers."""
    try:
        opened = open_headers(admin.sealer, row.account_id, row.agent_id, row.mcp_headers)
    except SealBroken:
        return tuple(_build_server(server, None) for server in servers)
    return tuple(_build_server(server, tuple(opened.get(server.name, {}))) for server in servers)


def seal_key(sealer: Sealer, account_id: str, agent_id: str, key: str | None) -> bytes | None:
    """Seal a provider key for its column."""
    return sealer.seal(key, owner=seal_owner(account_id, agent_id, "provider_key")) if key else None


def open_key(sealer: Sealer, account_id: str, agent_id: str, sealed: bytes | None) -> str | None:
    """Open a key that `seal_key` sealed. Raises SealBroken."""
    owner = seal_owner(account_id, agent_id, "provider_key")
    return None if sealed is None else sealer.open(sealed, owner=owner)


def seal_fallback_keys(
    sealer: Sealer, account_id: str, agent_id: str, fallbacks: tuple[Fallback, ...]
) -> bytes | None:
    """Seal the keys of all fall-backs for their column."""
    keys = [each.provider_key or None for each in fallbacks]
    owner = seal_owner(account_id, agent_id, "fallback_keys")
    return sealer.seal(msgspec.json.encode(keys).decode(), owner=owner) if any(keys) else None


def open_fallbacks(sealer: Sealer, row: AgentRow) -> tuple[Fallback, ...]:
    """Return the fall-backs with their keys. Raises SealBroken."""
    fallbacks = row.settings.fallbacks
    keys = unseal_fallback_keys(sealer, row.account_id, row.agent_id, row.fallback_keys)
    return tuple(
        msgspec.structs.replace(each, provider_key=key)
        for each, key in zip(fallbacks, keys or [None] * len(fallbacks), strict=True)
    )


def seal_headers(
    sealer: Sealer, account_id: str, agent_id: str, servers: tuple[McpServer, ...]
) -> bytes | None:
    """Seal the headers of all servers for their column."""
    headers = {server.name: server.headers for server in servers if server.headers}
    owner = seal_owner(account_id, agent_id, "mcp_headers")
    return sealer.seal(msgspec.json.encode(headers).decode(), owner=owner) if headers else None


def open_headers(sealer: Sealer, account_id: str, agent_id: str, sealed: bytes | None) -> Headers:
    """Open headers that `seal_headers` sealed. Raises SealBroken."""
    if sealed is None:
        return {}
    owner = seal_owner(account_id, agent_id, "mcp_headers")
    return msgspec.json.decode(sealer.open(sealed, owner=owner), type=dict[str, dict[str, str]])


def _build_server(server: McpServer, header_names: tuple[str, ...] | None) -> ShownServer:
    fields = msgspec.structs.asdict(server)
    del fields["headers"]
    return ShownServer(header_names=header_names, **fields)


def _list_shown_fallbacks(
    admin: Admin, row: AgentRow, fallbacks: tuple[Fallback, ...]
) -> tuple[ShownFallback, ...]:
    try:
        hints = [_show_key(each.provider_key or None) for each in open_fallbacks(admin.sealer, row)]
    except SealBroken:
        hints = [SecretHint(set=True)] * len(fallbacks)
    return tuple(
        ShownFallback(**msgspec.structs.asdict(each) | {"provider_key": hint})
        for each, hint in zip(fallbacks, hints, strict=True)
    )


def _build_key_hint(admin: Admin, row: AgentRow) -> SecretHint:
    try:
        return _show_key(open_key(admin.sealer, row.account_id, row.agent_id, row.provider_key))
    except SealBroken:
        return SecretHint(set=True)


def _show_key(key: str | None) -> SecretHint:
    if key is None:
        return SecretHint(set=False)
    return SecretHint(set=True, last4=key[-4:] if len(key) >= _LONG_ENOUGH else None)


_AGENT = """
SELECT g.agent_id, g.account_id, g.current_version, g.disabled_at IS NOT NULL, g.created_at,
       v.version, v.created_at, v.config::text, v.provider_key, v.fallback_keys, v.mcp_headers,
       g.retention_days
FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id"""

_VERSION = f"""{_AGENT} AND v.version = coalesce(%(version)s::integer, g.current_version)
WHERE g.agent_id = %(agent)s
"""

_AGENTS = f"""{_AGENT} AND v.version = g.current_version
WHERE g.account_id = coalesce(%(account)s::text, g.account_id) AND g.agent_id > %(after)s AND {IS_IN_LIMIT}
ORDER BY g.agent_id LIMIT %(limit)s
"""

_USING = f"""{_AGENT} AND v.version = g.current_version
WHERE g.account_id = %s AND v.config -> 'retrieval' ->> 'knowledge_base_id' = %s ORDER BY g.agent_id
"""
