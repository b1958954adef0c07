"""Load what a page lets people choose an agent and a version from, and read their choice."""

from collections.abc import Mapping
from typing import Any

from agentchat.administration import admin_agents
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.schema_forms import parse_whole_number
from agentchat.directory.display_names import list_agent_names

_VERSIONS = 50


async def load_choices(request: AnyRequest, agent_id: str | None = None) -> dict[str, Any]:
    """Return all agents, by account and name, and the newest versions of one, for a template."""
    pool = get_services(request).pool
    chosen = {"agents": await list_agent_names(pool, account_ids=get_admin(request).account_ids)}
    if agent_id is None:
        return chosen
    found = await admin_agents.list_versions(get_admin(request), agent_id, limit=_VERSIONS)
    return chosen | {"versions": found.items}


def read_text(form: Mapping[str, Any], name: str) -> str:
    """Return a field with Unix line ends; "" if it was not sent."""
    return str(form.get(name, "")).replace("\r\n", "\n")


def read_number(form: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number; None if the field is blank. Raises Invalid."""
    value = read_text(form, name).strip()
    return parse_whole_number(name, value) if value else None
