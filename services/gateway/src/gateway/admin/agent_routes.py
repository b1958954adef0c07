"""The addresses of agents, their versions and their MCP servers."""

from administration import agents, mcp_servers
from administration.values import (
    Agent,
    AgentChanges,
    AgentVersion,
    Deletion,
    NewAgent,
    NewServer,
    ServerBody,
    ServerChanges,
    ShownServer,
)
from contracts.messages import AgentCheck
from gateway.admin.route import PAGING, Nothing, Route

_AGENTS = (
    Route(
        method="POST",
        path="/agents",
        summary="Make an agent.",
        body=NewAgent,
        status=201,
        gives=Agent,
        conflicts=True,
        answer=lambda admin, asked: agents.create(admin, asked.body),
    ),
    Route(
        method="GET",
        path="/agents",
        summary="List the agents, all or one account's.",
        query=("account_id", *PAGING),
        gives=Agent,
        paged=True,
        answer=lambda admin, asked: agents.page(admin, asked.query.get("account_id"), **asked.paging),
    ),
    Route(
        method="GET",
        path="/agents/{agent_id}",
        summary="Get an agent's current version.",
        gives=Agent,
        answer=lambda admin, asked: agents.get(admin, asked.path["agent_id"]),
    ),
    Route(
        method="PATCH",
        path="/agents/{agent_id}",
        summary="Change an agent: a new version, unless only `disabled` changes.",
        body=AgentChanges,
        gives=Agent,
        answer=lambda admin, asked: agents.change(admin, asked.path["agent_id"], asked.body),
    ),
    Route(
        method="DELETE",
        path="/agents/{agent_id}",
        summary="Delete an agent with all its versions; with force also while it has runs or conversations.",
        body=Nothing,
        optional=True,
        query=("force", "dry_run"),
        gives=Deletion,
        conflicts=True,
        answer=lambda admin, asked: agents.delete(admin, asked.path["agent_id"], **asked.flags),
    ),
    Route(
        method="GET",
        path="/agents/{agent_id}/versions",
        summary="List an agent's versions, the newest first.",
        query=PAGING,
        gives=AgentVersion,
        paged=True,
        answer=lambda admin, asked: agents.versions(admin, asked.path["agent_id"], **asked.paging),
    ),
    Route(
        method="GET",
        path="/agents/{agent_id}/versions/{version}",
        summary="Get a version of an agent.",
        gives=Agent,
        answer=lambda admin, asked: agents.get(admin, asked.path["agent_id"], asked.version),
    ),
    Route(
        method="POST",
        path="/agents/{agent_id}/versions/{version}/restore",
        summary="Make a new version that is as an old one was, secrets included.",
        body=Nothing,
        optional=True,
        gives=Agent,
        answer=lambda admin, asked: agents.restore(admin, asked.path["agent_id"], asked.version),
    ),
    Route(
        method="POST",
        path="/agents/{agent_id}/check",
        summary="Ask the agent's provider and MCP servers whether they work: takes up to 20 s.",
        body=Nothing,
        optional=True,
        gives=AgentCheck,
        answer=lambda admin, asked: agents.check(admin, asked.path["agent_id"]),
    ),
)

_SERVERS = (
    Route(
        method="GET",
        path="/agents/{agent_id}/mcp_servers",
        summary="List an agent's MCP servers.",
        gives=tuple[ShownServer, ...],
        answer=lambda admin, asked: mcp_servers.all(admin, asked.path["agent_id"]),
    ),
    Route(
        method="POST",
        path="/agents/{agent_id}/mcp_servers",
        summary="Add an MCP server to an agent: a new version.",
        body=NewServer,
        status=201,
        gives=ShownServer,
        conflicts=True,
        answer=lambda admin, asked: mcp_servers.add(admin, asked.path["agent_id"], asked.body),
    ),
    Route(
        method="GET",
        path="/agents/{agent_id}/mcp_servers/{name}",
        summary="Get an MCP server of an agent.",
        gives=ShownServer,
        answer=lambda admin, asked: mcp_servers.get(admin, asked.path["agent_id"], asked.path["name"]),
    ),
    Route(
        method="PUT",
        path="/agents/{agent_id}/mcp_servers/{name}",
        summary="Set an MCP server, headers included, or add it: a new version.",
        body=ServerBody,
        gives=ShownServer,
        conflicts=True,
        answer=lambda admin, asked: mcp_servers.put(
            admin, asked.path["agent_id"], asked.path["name"], asked.body
        ),
    ),
    Route(
        method="PATCH",
        path="/agents/{agent_id}/mcp_servers/{name}",
        summary="Change an MCP server; its headers stay unless given: a new version.",
        body=ServerChanges,
        gives=ShownServer,
        conflicts=True,
        answer=lambda admin, asked: mcp_servers.change(
            admin, asked.path["agent_id"], asked.path["name"], asked.body
        ),
    ),
    Route(
        method="DELETE",
        path="/agents/{agent_id}/mcp_servers/{name}",
        summary="Take an MCP server from an agent: a new version.",
        body=Nothing,
        optional=True,
        query=("dry_run",),
        gives=Deletion,
        conflicts=True,
        answer=lambda admin, asked: mcp_servers.remove(
            admin, asked.path["agent_id"], asked.path["name"], **asked.flags
        ),
    ),
)

ROUTES = (*_AGENTS, *_SERVERS)
