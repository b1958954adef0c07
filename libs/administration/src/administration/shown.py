"""Agents as they are shown: with what may be seen of their secrets."""

import msgspec

from administration.admin import Admin
from administration.times import utc
from administration.values import Agent, SecretHint, ShownServer
from directory.administration.agent_rows import Row, config_of
from directory.administration.agent_secrets import open_headers, open_key
from directory.agents import McpServer
from directory.errors import SealBroken

_LONG_ENOUGH = 16  # characters of a secret, for its last four to give little away


def agent_of(admin: Admin, row: Row) -> Agent:
    """A version of an agent."""
    settings = config_of(row.config)
    fields = msgspec.structs.asdict(settings)
    fields["mcp_servers"] = servers_of(admin, row, settings.mcp_servers)
    return Agent(
        id=row.agent_id,
        account_id=row.account_id,
        version=row.version,
        disabled=row.disabled,
        created_at=utc(row.created_at),
        changed_at=utc(row.changed_at),
        provider_key=_key_hint(admin, row),
        **fields,
    )


def servers_of(admin: Admin, row: Row, servers: tuple[McpServer, ...]) -> tuple[ShownServer, ...]:
    """Its tool servers, with the names of their headers."""
    try:
        opened = open_headers(admin.sealer, row.account_id, row.agent_id, row.sealed.mcp_headers)
    except SealBroken:
        return tuple(_server(server, None) for server in servers)
    return tuple(_server(server, tuple(opened.get(server.name, {}))) for server in servers)


def _server(server: McpServer, header_names: tuple[str, ...] | None) -> ShownServer:
    return ShownServer(
        name=server.name,
        url=server.url,
        header_names=header_names,
        allowed_tools=server.allowed_tools,
        disabled=server.disabled,
    )


def _key_hint(admin: Admin, row: Row) -> SecretHint:
    try:
        key = open_key(admin.sealer, row.account_id, row.agent_id, row.sealed.provider_key)
    except SealBroken:
        return SecretHint(set=True)
    if key is None:
        return SecretHint(set=False)
    return SecretHint(set=True, last4=key[-4:] if len(key) >= _LONG_ENOUGH else None)
