"""The tool servers of an agent, one by one; each change is a new version of the agent."""

import re
from collections.abc import Callable, Iterable
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from administration.admin import Admin
from administration.admin_values import Deletion, ServerBody, ServerChanges, ShownServer
from administration.admin_versions import Servers, change_servers
from administration.agent_rows import found, servers_of
from administration.checked_input import checked
from administration.parameters import DryRun
from contracts.admin_errors import Conflict, Invalid, NotFound
from directory.agents import McpServer

S = TypeVar("S", McpServer, ShownServer)

_PORTS = {"http": 80, "https": 443}
_PATH = re.compile(r"^mcp_servers\[\d+\]\.?")


async def all(admin: Admin, agent_id: str) -> tuple[ShownServer, ...]:  # noqa: A001 - read as mcp_servers.all
    """List an agent's MCP servers.

    In their order. Raises NotFound.
    """
    async with admin.connection() as conn:
        row = await found(conn, agent_id)
    return servers_of(admin, row, row.settings.mcp_servers)


async def get(admin: Admin, agent_id: str, name: str) -> ShownServer:
    """Get an MCP server of an agent. Raises NotFound."""
    return named_server(await all(admin, agent_id), name)


async def add(admin: Admin, agent_id: str, new: McpServer) -> ShownServer:
    """Add an MCP server to an agent: a new version.

    As the last one. Raises NotFound, Invalid, Conflict where the name is taken.
    """
    new = checked(new)
    await admin.check_tool_url(new.url)

    def added(servers: Servers) -> Servers:
        if any(server.name == new.name for server in servers):
            raise Conflict(f"the agent has an MCP server {new.name} already")
        return (*servers, new)

    return await _changed(admin, agent_id, new.name, added)


async def put(admin: Admin, agent_id: str, name: str, body: ServerBody) -> ShownServer:
    """Set an MCP server, headers included, or add it: a new version.

    It replaces the one of that name, headers included, or is added as the last. Raises NotFound, Invalid.
    """
    server = checked(McpServer(name=name, **msgspec.structs.asdict(checked(body))))
    await admin.check_tool_url(server.url)

    def replaced(servers: Servers) -> Servers:
        if any(each.name == name for each in servers):
            return tuple(server if each.name == name else each for each in servers)
        return (*servers, server)

    return await _changed(admin, agent_id, name, replaced)


async def change(admin: Admin, agent_id: str, name: str, changes: ServerChanges) -> ShownServer:
    """Change an MCP server; its headers stay unless given: a new version.

    What is left out stays, the headers too, unless the URL goes to another origin: they are needed then.

    Raises NotFound, Invalid, Conflict (headers do not open).
    """
    given = checked(changes).given()
    if not given:
        return await get(admin, agent_id, name)
    if "url" in given:
        await admin.check_tool_url(given["url"])

    def replaced(servers: Servers) -> Servers:
        present = named_server(servers, name)
        if present.headers and "headers" not in given and _elsewhere(present.url, given.get("url")):
            raise Invalid("headers", "must be given again for another origin; {} for none")
        return tuple(
            msgspec.structs.replace(server, **given) if server.name == name else server for server in servers
        )

    return await _changed(admin, agent_id, name, replaced)


async def remove(admin: Admin, agent_id: str, name: str, *, dry_run: DryRun = False) -> Deletion:
    """Take an MCP server from an agent: a new version. Raises NotFound."""
    named_server(await all(admin, agent_id), name)
    if not dry_run:

        def left(servers: Servers) -> Servers:
            named_server(servers, name)
            return tuple(server for server in servers if server.name != name)

        await _change(admin, agent_id, left)
    return Deletion(kind="MCP server", id=name, dry_run=dry_run)


async def _changed(
    admin: Admin, agent_id: str, name: str, change: Callable[[Servers], Servers]
) -> ShownServer:
    await _change(admin, agent_id, change)
    return await get(admin, agent_id, name)


async def _change(admin: Admin, agent_id: str, change: Callable[[Servers], Servers]) -> None:
    """What is wrong with a server is said by the names of its own fields."""
    try:
        async with admin.transaction() as conn:
            await change_servers(conn, admin.sealer, agent_id, change, actor=admin.actor)
    except Invalid as error:
        raise Invalid(_PATH.sub("", error.field), error.reason) from None


def named_server(servers: Iterable[S], name: str) -> S:
    """The one of this name. Raises NotFound."""
    for server in servers:
        if server.name == name:
            return server
    raise NotFound("MCP server", name[:100])


def _elsewhere(present: str, url: str | None) -> bool:
    """Whether `url` has another origin (RFC 6454), so that it must not be sent the headers of `present`."""
    try:
        return url is not None and _origin(url) != _origin(present)
    except ValueError:
        return False  # no address, which is refused with the rest of the configuration


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
