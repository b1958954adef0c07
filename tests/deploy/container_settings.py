"""The settings with which a manifest starts a container of our image."""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from agentchat.console.settings import ConsoleSettings
from agentchat.gateway.settings import GatewaySettings
from agentchat.mcp_demo.__main__ import McpDemoSettings
from agentchat.model_demo.__main__ import ModelDemoSettings
from agentchat.ops.prepare import DatabaseSettings
from agentchat.orchestrator.settings import Settings as OrchestratorSettings
from agentchat.projector.settings import ProjectorSettings as ProjectorSettings
from agentchat.runtime.settings import FILE_SUFFIX, Setting, SettingsError, get_setting, load
from agentchat.tool_runner.settings import ToolRunnerSettings

ROOT = Path(__file__).resolve().parents[2]
SETTINGS: Mapping[str, type[msgspec.Struct]] = {
    "agentchat.gateway": GatewaySettings,
    "agentchat.orchestrator": OrchestratorSettings,
    "agentchat.tool_runner": ToolRunnerSettings,
    "agentchat.projector": ProjectorSettings,
    "agentchat.console": ConsoleSettings,
    "agentchat.mcp_demo": McpDemoSettings,
    "agentchat.model_demo": ModelDemoSettings,
    "agentchat.ops.main migrate": DatabaseSettings,
}
_SECRET_VALUE = base64.b64encode(bytes(32)).decode()
"""Stands for a mounted file's content; every secret setting accepts it."""
_DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")


def with_defaults(value: object) -> str:
    """Return a value of the Compose file with the defaults of its variables."""
    return _DEFAULT.sub(r"\1", str(value))


def image_environment() -> dict[str, str]:
    """Return the variables that the image sets."""
    text = (ROOT / "deploy/Containerfile").read_text().replace("\\\n", " ")
    return dict(re.findall(r"\b(AGENTCHAT_\w+)=(\S+)", text))


def all_settings(settings: type[msgspec.Struct]) -> Iterator[Setting]:
    """Yield what fills each field of a settings struct."""
    for field in msgspec.structs.fields(settings):
        yield get_setting(settings, field)


def settings_faults(command: Sequence[str], environ: Mapping[str, str], files: Iterable[str]) -> list[str]:
    """Return what keeps the container from starting with these variables and mounted secrets."""
    module = " ".join(command[: 2 if command[0] == "agentchat.ops.main" else 1])
    known = {setting.name: setting for setting in all_settings(SETTINGS[module])}
    values, faults = dict(image_environment()), list[str]()
    for name, value in environ.items():
        setting = known.get(name.removesuffix(FILE_SUFFIX))
        if setting is None:
            faults.append(f"{name} is not a setting of {module}")
        elif name == setting.name:
            values[name] = value
            if setting.secret and value:
                faults.append(f"{name} is secret: use {name}{FILE_SUFFIX}")
        else:
            values[setting.name] = _SECRET_VALUE
            if value not in files:
                faults.append(f"{name} names {value}, which is not mounted")
    try:
        load(SETTINGS[module], values)
    except SettingsError as error:
        faults.append(str(error))
    return faults
