"""Which agent a page works with, and which of its versions."""

from collections.abc import Mapping
from typing import Any

from agentchat.administration import admin_agents
from agentchat.administration.admin_values import Agent, AgentVersion
from agentchat.console.console_services import services_of
from agentchat.console.frame.access import AnyRequest
from agentchat.console.frame.acting import admin_of
from agentchat.console.frame.forms import whole_number
from agentchat.directory.display_names import AgentOption, list_agent_names

_VERSIONS = 50


async def agent_options(request: AnyRequest) -> list[AgentOption]:
    """Every agent, by the name of its account and its own."""
    return await list_agent_names(services_of(request).pool)


async def find_agent(request: AnyRequest, agent_id: str, version: int | None) -> Agent:
    """Return a version of an agent, the current one if `version` is None. Raises NotFound."""
    return await admin_agents.get(admin_of(request), agent_id, version)


async def newest_versions(request: AnyRequest, agent_id: str) -> tuple[AgentVersion, ...]:
    return (await admin_agents.versions(admin_of(request), agent_id, limit=_VERSIONS)).items


def text(form: Mapping[str, Any], name: str) -> str:
    """Return a field with the line ends that people mean; "" if it was not sent."""
    return str(form.get(name, "")).replace("\r\n", "\n")


def number(form: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number; None if the field is blank. Raises Invalid."""
    value = text(form, name).strip()
    return whole_number(name, value) if value else None
