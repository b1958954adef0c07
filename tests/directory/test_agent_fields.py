"""Every place that lists the fields of an agent lists all of them."""

import re
from pathlib import Path
from typing import get_type_hints

from msgspec import UnsetType

from agentchat.administration.admin_values import Agent, ServerBody
from agentchat.directory.agent_config import McpServer
from agentchat.directory.agent_validation import AgentChanges, AgentDraft

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "agents.md"


def test_every_field_is_documented() -> None:
    (table,) = re.findall(r"^\| field \| meaning \|\n(.+?)\n\n", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    cells = [row.split("|")[1] for row in table.splitlines()[1:]]
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(AgentDraft.__struct_fields__)


def test_changes_and_the_shown_agent_have_every_field_with_its_type() -> None:
    draft, changes, shown = (
        get_type_hints(each, include_extras=True) for each in (AgentDraft, AgentChanges, Agent)
    )
    assert list(changes) == [*draft, "disabled", "retention_days", "note"]
    for name, hint in draft.items():
        assert changes[name] == hint | UnsetType, name
        assert name in ("mcp_servers", "provider_key", "fallbacks") or shown[name] == hint, name


def test_the_body_of_a_tool_server_has_its_fields_but_the_name() -> None:
    server, body = (get_type_hints(each, include_extras=True) for each in (McpServer, ServerBody))
    del server["name"]
    assert body == server | {"headers": server["headers"] | UnsetType}
