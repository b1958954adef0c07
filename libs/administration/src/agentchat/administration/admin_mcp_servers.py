"""Change an agent's tool servers one by one; each change makes a new version of the agent."""

import re
from collections.abc import Callable, Iterable
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from agentchat.administration.admin import Admin
from agentchat.administration.admin_values import Deletion, ServerBody, ShownServer
from agentchat.administration.agent_rows import find_agent, list_shown_servers
from agentchat.administration.agent_versions import Servers, change_servers
from agentchat.administration.checked_input import validate
from agentchat.administration.query_parameters import DryRun
from agentchat.contracts.admin_errors import Invalid, NotFound
from agentchat.directory.agent_config import McpServer

S = TypeVar("S", McpServer, ShownServer)

_PORTS = {"http": 80, "https": 443}
_PATH = re.compile(r"^mcp_servers\[\d+\]\.?")


async def list_servers(admin: Admin, agent_id: str) -> tuple[ShownServer, ...]:
    """List an agent's MCP servers in their order. Raises NotFound."""
    async with admin.connection() as conn:
        row = await find_agent(conn, agent_id)
    return list_shown_servers(admin, row, row.settings.mcp_servers)


async def get(admin: Admin, agent_id: str, name: str) -> ShownServer:
    """Get an MCP server of an agent. Raises NotFound."""
    return get_named_server(await list_servers(admin, agent_id), name)


async def put(admin: Admin, agent_id: str, name: str, body: ServerBody) -> ShownServer:
    """Set an MCP server of an agent, or add it as the last one: a new version.

    Headers that are left out stay as they are; a URL of another origin needs them again.
    Raises NotFound, Invalid, Conflict (headers do not open).
    """
    fields = msgspec.structs.asdict(validate(body))
    await admin.check_tool_url(body.url)

    def replace_server(servers: Servers) -> Servers:
        present = next((each for each in servers if each.name == name), None)
        headers = fields["headers"]
        if headers is msgspec.UNSET:
            headers = {} if present is None else present.headers
            if present is not None and headers and _get_origin(present.url) != _get_origin(body.url):
                raise Invalid("headers", "must be given again for another origin; {} for none")
        server = McpServer(name=name, **fields | {"headers": headers})
        if present is None:
            return (*servers, server)
        return tuple(server if each is present else each for each in servers)

    await _change(admin, agent_id, replace_server)
    return await get(admin, agent_id, name)


async def remove(admin: Admin, agent_id: str, name: str, *, dry_run: DryRun = False) -> Deletion:
    """Take an MCP server from an agent: a new version. Raises NotFound."""
    get_named_server(await list_servers(admin, agent_id), name)
    if not dry_run:

        def remove_server(servers: Servers) -> Servers:
            get_named_server(servers, name)
            return tuple(server for server in servers if server.name != name)

        await _change(admin, agent_id, remove_server)
    return Deletion(kind="MCP server", id=name, dry_run=dry_run)


async def _change(admin: Admin, agent_id: str, change: Callable[[Servers], Servers]) -> None:
    """Change the servers; errors name the field of the server itself."""
    try:
        async with admin.transaction() as conn:
            await change_servers(conn, admin.sealer, agent_id, change, actor=admin.actor)
    except Invalid as error:
        raise Invalid(_PATH.sub("", error.field), error.reason) from None


def get_named_server(servers: Iterable[S], name: str) -> S:
    """Return the server of this name. Raises NotFound."""
    for server in servers:
        if server.name == name:
            return server
    raise NotFound("MCP server", name[:100])


def _get_origin(url: str) -> tuple[str, str | None, int | None] | None:
    """Return the origin of an address (RFC 6454); None if it is no address."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
