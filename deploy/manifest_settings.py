"""Whether a service of ours starts with the variables and the files that a manifest gives it."""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from console.settings import ConsoleSettings
from gateway.settings import Settings as GatewaySettings
from mcp_demo.__main__ import McpDemoSettings
from model_demo.__main__ import ModelDemoSettings
from notifier.settings import Settings as NotifierSettings
from ops.prepare import DatabaseSettings
from orchestrator.settings import Settings as OrchestratorSettings
from projector.settings import Settings as ProjectorSettings
from runtime.settings import FILE_SUFFIX, Setting, SettingsError, load, setting_of
from tool_runner.settings import ToolRunnerSettings

_CONTAINERFILE = Path(__file__).with_name("Containerfile")
SETTINGS: Mapping[str, type[msgspec.Struct]] = {
    "gateway": GatewaySettings,
    "orchestrator": OrchestratorSettings,
    "tool_runner": ToolRunnerSettings,
    "projector": ProjectorSettings,
    "notifier": NotifierSettings,
    "console": ConsoleSettings,
    "mcp_demo": McpDemoSettings,
    "model_demo": ModelDemoSettings,
    "ops.main migrate": DatabaseSettings,
}
_FILLED_IN = base64.b64encode(bytes(32)).decode()
"""In the place of a file's content, which nobody has here; it does for every secret setting."""


def image_environment() -> dict[str, str]:
    """The variables that our image sets."""
    text = _CONTAINERFILE.read_text().replace("\\\n", " ")
    return dict(re.findall(r"\b(AGENTCHAT_\w+)=(\S+)", text))


def settings_findings(
    where: str, command: Sequence[str], environ: Mapping[str, str], files: Iterable[str]
) -> Iterator[str]:
    """What keeps what `command` starts from it with these variables, and with these files for its secrets."""
    module = " ".join(command[: 2 if command[0] == "ops.main" else 1])
    settings = SETTINGS.get(module)
    if settings is None:
        yield f"{where}: the image has no service {module!r}"
        return
    known = {setting.name: setting for setting in all_settings(settings)}
    filled = dict(image_environment())
    for name, value in environ.items():
        setting = known.get(name.removesuffix(FILE_SUFFIX))
        if setting is None or (name != setting.name and not setting.secret):
            yield f"{where}: {name} is no setting of {module}"
        elif name == setting.name:
            filled[name] = value
            if setting.secret and value:
                yield f"{where}: {name} is secret, so it belongs into a file ({name}{FILE_SUFFIX})"
        else:
            filled[setting.name] = _FILLED_IN
            if value not in files:
                yield f"{where}: {name} names {value}, which is not mounted"
    try:
        loaded = load(settings, filled)
        for check in ("check", "guard", "sealer"):
            getattr(loaded, check, lambda: None)()
    except SettingsError as error:
        yield f"{where}: {error}"


def all_settings(settings: type[msgspec.Struct]) -> Iterator[Setting]:
    """What fills the fields of a settings struct."""
    for field in msgspec.structs.fields(settings):
        yield setting_of(settings, field)
