"""Define the console's settings; all come from the environment."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from agentchat.console.sign_in_settings import SignInSettings
from agentchat.contracts.webhooks import PORTS
from agentchat.directory.secret_encryption import Sealer, build_sealer
from agentchat.files.object_store import ObjectStore
from agentchat.net_guard import Guard
from agentchat.net_guard.ssrf_guard import build_guard
from agentchat.runtime.prices import SETTING, Prices, load_prices
from agentchat.runtime.settings import Setting, SettingsError

_HTTP = re.compile(r"https?://[^/]")
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Level = Literal["debug", "info", "warning", "error"]


class ConsoleSettings(SignInSettings, frozen=True, kw_only=True):
    """The settings of the console. Port 0 means any free port.

    `prices` is a JSON file with the prices of models, in place of the list prices that come with it.
    A `rehearsal` only reads. Without `files_url` conversations show the names of their images only.
    `services` are the processes on the health page, each as `name=http://host:port/metrics`. The charts
    begin with the hour that Prometheus has at `prometheus_url`.
    """

    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]
    nats_url: Annotated[str, Setting("AGENTCHAT_NATS_URL", secret=True)]
    secret_key: Annotated[str, Setting("AGENTCHAT_SECRET_KEY", secret=True)]
    previous_secret_keys: Annotated[
        tuple[str, ...], Setting("AGENTCHAT_SECRET_KEY_PREVIOUS", secret=True)
    ] = ()
    port: Annotated[Port, Setting("AGENTCHAT_CONSOLE_PORT")] = 8085
    health_port: Annotated[Port | None, Setting("AGENTCHAT_HEALTH_PORT")] = None
    services: Annotated[tuple[str, ...], Setting("AGENTCHAT_CONSOLE_SERVICES")] = ()
    prometheus_url: Annotated[str | None, Setting("AGENTCHAT_PROMETHEUS_URL")] = None
    model_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_MODEL_ALLOW")] = ()
    mcp_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_MCP_ALLOW")] = ()
    webhook_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_WEBHOOK_ALLOW")] = ()
    files_url: Annotated[str | None, Setting("AGENTCHAT_FILES_URL")] = None
    prices: Annotated[str | None, Setting(SETTING)] = None
    rehearsal: Annotated[bool, Setting("AGENTCHAT_REHEARSAL")] = False
    log_level: Annotated[Level, Setting("AGENTCHAT_LOG_LEVEL")] = "info"
    otlp_endpoint: Annotated[str | None, Setting("OTEL_EXPORTER_OTLP_ENDPOINT")] = None

    def check(self) -> None:
        """Check what the types cannot express. Raises SettingsError."""
        self.check_sign_in()
        self.build_sealer()
        self.build_model_guard()
        self.build_tool_guard()
        self.build_webhook_guard()
        self.list_targets()
        if self.prometheus_url is not None and not _HTTP.match(self.prometheus_url):
            raise SettingsError(f"AGENTCHAT_PROMETHEUS_URL {self.prometheus_url!r}: must be http://host:port")
        self.load_prices()
        if self.files_url is not None:
            ObjectStore(self.files_url)

    def list_targets(self) -> dict[str, str]:
        """Return the URLs of metrics by process name. Raises SettingsError."""
        found = dict(each.partition("=")[::2] for each in self.services)
        for name, url in found.items():
            if not name or urlsplit(url).scheme != "http":
                raise SettingsError(
                    f"AGENTCHAT_CONSOLE_SERVICES {name!r}: must be name=http://host:port/metrics"
                )
        return found

    def build_model_guard(self) -> Guard:
        """Build the guard for the agents' base URLs. Raises SettingsError."""
        return build_guard(self.model_allow, "AGENTCHAT_MODEL_ALLOW")

    def build_tool_guard(self) -> Guard:
        """Build the guard for the URLs of the agents' tool servers. Raises SettingsError."""
        return build_guard(self.mcp_allow, "AGENTCHAT_MCP_ALLOW")

    def build_webhook_guard(self) -> Guard:
        """Build the guard for the URLs of webhook endpoints. Raises SettingsError."""
        return build_guard(self.webhook_allow, "AGENTCHAT_WEBHOOK_ALLOW", PORTS)

    def load_prices(self) -> Prices:
        """Load the price table. Raises SettingsError."""
        return load_prices(self.prices)

    def build_sealer(self) -> Sealer:
        """Build the sealer of the agents' secrets. Raises SettingsError."""
        return build_sealer(self.secret_key, self.previous_secret_keys)
