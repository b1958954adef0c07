"""Which agent a page works with, and a draft of its configuration as a form."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar.datastructures import FormMultiDict

from administration.admin_values import Agent, AgentDraftChanges, AgentVersion
from console.frame.access import AnyRequest
from console.frame.acting import administer
from console.frame.directory import account_names, all_of
from console.frame.forms import FormField, SchemaForm, body_schema, whole_number
from contracts.admin_errors import AdminError, Invalid

_VERSIONS = 50
_SETTINGS = SchemaForm(body_schema(AgentDraftChanges), leave_out=("version", "servers"), blank_is_empty=True)
_USUAL = frozenset({"model", "system_prompt", "parameters", "max_tool_rounds"})
_ENABLED, _TOOLS = "server.", "tools."
"""What the names of the two fields of a tool server begin with."""


class AgentOption(msgspec.Struct, frozen=True):
    """An agent in a list to choose from."""

    id: str
    name: str
    account: str


class DraftFields(msgspec.Struct, frozen=True, kw_only=True):
    """The form of a configuration: what people change most, two fields for each tool server, and the rest."""

    usual: tuple[FormField, ...]
    servers: tuple[FormField, ...]
    more: tuple[FormField, ...]


async def agent_options(request: AnyRequest) -> tuple[AgentOption, ...]:
    """Every agent, by the name of its account and its own."""
    agents: tuple[Agent, ...] = await all_of(request, "GET /agents")
    names = await account_names(request, {each.account_id for each in agents})
    options = (
        AgentOption(each.id, each.name, names[each.account_id])
        for each in agents
        if each.account_id in names  # else it was deleted between the two
    )
    return tuple(sorted(options, key=lambda each: (each.account.lower(), each.name.lower(), each.id)))


async def find_agent(request: AnyRequest, agent_id: str, version: int | None) -> Agent:
    """A version of an agent or a draft; the current version without. Raises NotFound."""
    if version is None:
        found = await administer(request, "GET /agents/{agent_id}", agent_id=agent_id)
    else:
        path = "GET /agents/{agent_id}/versions/{version}"
        found = await administer(request, path, agent_id=agent_id, version=version)
    assert isinstance(found, Agent)
    return found


async def newest_versions(request: AnyRequest, agent_id: str) -> tuple[AgentVersion, ...]:
    part = await administer(
        request, "GET /agents/{agent_id}/versions", agent_id=agent_id, after=None, limit=_VERSIONS
    )
    items: tuple[AgentVersion, ...] = part.items
    return items


def draft_fields(
    agent: Agent, given: FormMultiDict | None = None, problem: AdminError | None = None
) -> DraftFields:
    """Of a version, or as somebody has filled them in."""
    wrong = problem if isinstance(problem, Invalid) else None
    settings = _SETTINGS.fields(msgspec.to_builtins(agent), given, wrong)
    return DraftFields(
        usual=tuple(each for each in settings if each.name in _USUAL),
        servers=_servers_form(agent).fields(_chosen_tools(agent), given, wrong),
        more=tuple(each for each in settings if each.name not in _USUAL),
    )


def changes(agent: Agent, given: FormMultiDict) -> dict[str, Any]:
    """What of the form differs from the agent, as a draft takes it. Raises Invalid."""
    changed = _SETTINGS.changed(given, msgspec.to_builtins(agent))
    form = _servers_form(agent)
    tools, changed_tools = form.read(given), form.changed(given, _chosen_tools(agent))
    servers = {
        each.name: {"disabled": not tools[_ENABLED + each.name], "allowed_tools": tools[_TOOLS + each.name]}
        for each in agent.mcp_servers
        if not changed_tools.keys().isdisjoint((_ENABLED + each.name, _TOOLS + each.name))
    }
    return changed | ({"servers": servers} if servers else {})


async def drafted(request: AnyRequest, agent: Agent, given: FormMultiDict) -> Agent:
    """The agent as the form has it: itself where nothing differs, else a draft. Raises Invalid."""
    changed = changes(agent, given)
    if not changed:
        return agent
    body = changed | {"version": agent.version}
    draft = await administer(request, "POST /agents/{agent_id}/drafts", agent_id=agent.id, changes=body)
    assert isinstance(draft, Agent)
    return draft


def text(form: Mapping[str, Any], name: str) -> str:
    """A field with the line ends that people mean; "" where it was not sent."""
    return str(form.get(name, "")).replace("\r\n", "\n")


def number(form: Mapping[str, Any], name: str) -> int | None:
    """None where it is blank. Raises Invalid."""
    value = text(form, name).strip()
    return whole_number(name, value) if value else None


def _servers_form(agent: Agent) -> SchemaForm:
    properties: dict[str, Any] = {}
    for each in agent.mcp_servers:
        title, names = f"Tool server {each.name}", {"type": "array", "items": {"type": "string"}}
        properties[_ENABLED + each.name] = {"type": "boolean", "title": title, "description": each.url}
        properties[_TOOLS + each.name] = {
            "anyOf": [names, {"type": "null"}],
            "title": f"Tools of {each.name}",
            "description": "Blank: every tool",
        }
    return SchemaForm({"properties": properties})


def _chosen_tools(agent: Agent) -> dict[str, Any]:
    enabled = {_ENABLED + each.name: not each.disabled for each in agent.mcp_servers}
    return enabled | {_TOOLS + each.name: each.allowed_tools for each in agent.mcp_servers}
