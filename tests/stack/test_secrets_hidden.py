"""Structs that hold secrets show none: a repr ends in logs and in tracebacks."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentchat.administration.key_values import IssuedKey
from agentchat.console.settings import ConsoleSettings
from agentchat.directory.agent_config import AgentConfig, McpServer
from agentchat.directory.agent_validation import AgentChanges, AgentDraft
from agentchat.gateway.settings import GatewaySettings
from agentchat.ops.demo import Demo
from agentchat.ops.demo_env import Environment
from agentchat.ops.folder_secrets import Secrets
from agentchat.ops.prepare import PrepareSettings
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.service_processes import Urls
from agentchat.ops.settings import ProcessCounts, UpSettings
from agentchat.ops.stack import describe_stack
from agentchat.orchestrator.models import Credentials
from agentchat.orchestrator.settings import Settings as OrchestratorSettings
from agentchat.projector.settings import ProjectorSettings as ProjectorSettings
from agentchat.runtime.settings import Setting
from agentchat.tool_runner.settings import ToolRunnerSettings

SECRET = "hunter2-of-a-secret"
SERVER = McpServer(name="s", url="https://s.example", headers={"Authorization": SECRET})


def _fill_secrets(kind: Any) -> msgspec.Struct:
    """Every secret setting has the secret."""
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        [mark] = [mark for mark in field.type.__metadata__ if isinstance(mark, Setting)]
        if mark.secret:
            values[field.name] = (SECRET,) if field.default == () else SECRET
        elif field.required:
            values[field.name] = 1
    filled: msgspec.Struct = kind(**values)
    return filled


def _fill_all_fields(kind: Any, **others: Any) -> msgspec.Struct:
    """Every field but `others` is the secret."""
    filled: msgspec.Struct = kind(**dict.fromkeys(kind.__struct_fields__, SECRET) | others)
    return filled


HOLDERS = [
    *map(
        _fill_secrets,
        (GatewaySettings, OrchestratorSettings, ProjectorSettings, ToolRunnerSettings),
    ),
    *map(_fill_secrets, (PrepareSettings, UpSettings, ConsoleSettings)),
    Secrets(secret_key=SECRET, api_key=SECRET),
    Demo(api_key=SECRET, starter_api_key=SECRET, load_api_key=SECRET, mcp_url="u", anthropic_key=SECRET),
    _fill_all_fields(Environment, base_url="u", gateway_urls=("u",)),
    _fill_all_fields(Urls),
    Credentials("https://provider.example", SECRET),
    SERVER,
    AgentDraft(name="a", model="m", mcp_servers=(SERVER,), provider_key=SECRET),
    AgentChanges(mcp_servers=(SERVER,), provider_key=SECRET),
    AgentConfig(name="a", model="m", mcp_servers=(SERVER,), agent_id="1", account_id="2", version=3),
]


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: type(holder).__module__)
def test_a_repr_shows_no_secret(holder: msgspec.Struct) -> None:
    assert SECRET in msgspec.json.encode(holder).decode(), "it does hold one"
    assert SECRET not in repr(holder)


def test_a_key_that_was_issued_is_not_shown_either() -> None:
    issued = IssuedKey(id="1", key=SECRET, last4="cret", account_id="2", name="web")
    assert SECRET not in repr(issued)


def test_console_of_a_stack_has_no_sign_in_settings(tmp_path: Path) -> None:
    names = ("AGENTCHAT_CONSOLE_OIDC_ISSUER", "AGENTCHAT_CONSOLE_OIDC_CLIENT_SECRET", "AGENTCHAT_PRICES")
    environ = dict.fromkeys(names, "x")
    stack = describe_stack(RunFolder(tmp_path), Secrets(), UpSettings(port=0), ProcessCounts(), environ)
    (console,) = (each for each in stack.processes if each.name == "console-1")
    assert set(names) & console.env.keys() == {"AGENTCHAT_PRICES"}
