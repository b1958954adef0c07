"""List and load the agents and versions that a page lets people choose from."""

from collections.abc import Mapping
from typing import Any

from agentchat.administration import admin_agents
from agentchat.administration.admin_values import Agent, AgentVersion
from agentchat.console.frame.access import AnyRequest, get_admin
from agentchat.console.frame.schema_forms import parse_whole_number
from agentchat.console.services import get_services
from agentchat.directory.display_names import AgentOption, list_agent_names

_VERSIONS = 50


async def list_agents(request: AnyRequest) -> list[AgentOption]:
    """Return all agents, sorted by account name and own name."""
    return await list_agent_names(get_services(request).pool)


async def find_agent(request: AnyRequest, agent_id: str, version: int | None) -> Agent:
    """Return a version of an agent, the current one if `version` is None. Raises NotFound."""
    return await admin_agents.get(get_admin(request), agent_id, version)


async def list_versions(request: AnyRequest, agent_id: str) -> tuple[AgentVersion, ...]:
    """Return the newest versions of an agent."""
    return (await admin_agents.list_versions(get_admin(request), agent_id, limit=_VERSIONS)).items


def read_text(form: Mapping[str, Any], name: str) -> str:
    """Return a field with Unix line ends; "" if it was not sent."""
    return str(form.get(name, "")).replace("\r\n", "\n")


def read_number(form: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number; None if the field is blank. Raises Invalid."""
    value = read_text(form, name).strip()
    return parse_whole_number(name, value) if value else None
