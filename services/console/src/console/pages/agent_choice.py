"""Which agent a page works with, and a draft of its configuration as a form."""

from collections.abc import Mapping
from typing import Any

import msgspec

from administration.admin_values import Agent, AgentVersion
from console.frame.access import AnyRequest
from console.frame.acting import administer
from console.frame.directory import account_names, all_of
from console.frame.filters import json_text
from console.frame.forms import whole_number
from contracts.admin_errors import Invalid

_VERSIONS = 50


class AgentOption(msgspec.Struct, frozen=True):
    """An agent in a list to choose from."""

    id: str
    name: str
    account: str


class DraftServer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool server in the form; `tools` are names, separated by commas, "" for every tool."""

    name: str
    url: str
    enabled: bool
    tools: str


class DraftForm(msgspec.Struct, frozen=True, kw_only=True):
    """The fields as they are shown: of a version, or as somebody has filled them in."""

    version: int
    model: str
    system_prompt: str
    parameters: str
    max_tool_rounds: str
    servers: tuple[DraftServer, ...]


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


def form_of(agent: Agent) -> DraftForm:
    return DraftForm(
        version=agent.version,
        model=agent.model,
        system_prompt=agent.system_prompt,
        parameters=json_text(agent.parameters) if agent.parameters else "",
        max_tool_rounds=str(agent.max_tool_rounds),
        servers=tuple(
            DraftServer(
                name=each.name,
                url=each.url,
                enabled=not each.disabled,
                tools=", ".join(each.allowed_tools or ()),
            )
            for each in agent.mcp_servers
        ),
    )


def filled(agent: Agent, form: Mapping[str, Any]) -> DraftForm:
    """As it was sent."""
    return DraftForm(
        version=agent.version,
        model=text(form, "model"),
        system_prompt=text(form, "system_prompt"),
        parameters=text(form, "parameters"),
        max_tool_rounds=text(form, "max_tool_rounds"),
        servers=tuple(
            DraftServer(
                name=each.name,
                url=each.url,
                enabled=f"server.{each.name}" in form,
                tools=text(form, f"tools.{each.name}"),
            )
            for each in agent.mcp_servers
        ),
    )


def changes(agent: Agent, form: DraftForm) -> dict[str, Any]:
    """What of the form differs from the agent, as a draft takes it. Raises Invalid."""
    wanted: dict[str, Any] = {
        "model": form.model.strip(),
        "system_prompt": form.system_prompt,
        "parameters": _object(form.parameters),
        "max_tool_rounds": whole_number("max_tool_rounds", form.max_tool_rounds),
    }
    changed = {name: value for name, value in wanted.items() if value != getattr(agent, name)}
    servers = {}
    for each, present in zip(form.servers, agent.mcp_servers, strict=True):
        names = tuple(part.strip() for part in each.tools.split(",") if part.strip()) or None
        if (not each.enabled, names) != (present.disabled, present.allowed_tools):
            servers[each.name] = {"disabled": not each.enabled, "allowed_tools": names}
    return changed | ({"servers": servers} if servers else {})


async def drafted(request: AnyRequest, agent: Agent, form: DraftForm) -> Agent:
    """The agent as the form has it: itself where nothing differs, else a draft. Raises Invalid."""
    changed = changes(agent, form)
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


def _object(value: str) -> dict[str, Any]:
    if not value.strip():
        return {}
    try:
        return msgspec.json.decode(value, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Invalid("parameters", f"must be an object of JSON: {error}") from None
