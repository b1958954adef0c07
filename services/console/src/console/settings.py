"""The console's settings, all from the environment."""

import ipaddress
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from contracts.webhooks import PORTS
from directory.secrets import Sealer, sealer_of
from experiments.prices import Prices, UnreadablePrices, read_prices
from knowledge.settings import EmbedderSettings
from net_guard import Guard
from net_guard.guard import guard_of
from runtime.settings import Setting, SettingsError

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
AdminToken = Annotated[str, msgspec.Meta(min_length=16)]
Hours = Annotated[float, msgspec.Meta(gt=0, le=720)]
Level = Literal["debug", "info", "warning", "error"]


class ConsoleSettings(EmbedderSettings, frozen=True, kw_only=True):
    """Port 0 is any free one.

    `prices` is a file of JSON with the prices of models, without which nothing has a cost.
    Without `admin_token` nobody has to sign in, so it listens on loopback alone. With it, people sign in with
    a name and the token, for `session_hours`, at `console_url`: where browsers reach it, by https if they are
    not on this machine.
    `services` are the processes that the health page looks at, each as `name=http://host:port/metrics`.
    """

    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]
    nats_url: Annotated[str, Setting("AGENTCHAT_NATS_URL", secret=True)]
    secret_key: Annotated[str, Setting("AGENTCHAT_SECRET_KEY", secret=True)]
    previous_secret_keys: Annotated[
        tuple[str, ...], Setting("AGENTCHAT_SECRET_KEY_PREVIOUS", secret=True)
    ] = ()
    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    port: Annotated[Port, Setting("AGENTCHAT_CONSOLE_PORT")] = 8085
    health_port: Annotated[Port | None, Setting("AGENTCHAT_HEALTH_PORT")] = None
    admin_token: Annotated[AdminToken | None, Setting("AGENTCHAT_ADMIN_TOKEN", secret=True)] = None
    console_url: Annotated[str | None, Setting("AGENTCHAT_CONSOLE_URL")] = None
    session_hours: Annotated[Hours, Setting("AGENTCHAT_CONSOLE_HOURS")] = 8.0
    services: Annotated[tuple[str, ...], Setting("AGENTCHAT_CONSOLE_SERVICES")] = ()
    model_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_MODEL_ALLOW")] = ()
    mcp_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_MCP_ALLOW")] = ()
    webhook_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_WEBHOOK_ALLOW")] = ()
    prices: Annotated[str | None, Setting("AGENTCHAT_PRICES")] = None
    log_level: Annotated[Level, Setting("AGENTCHAT_LOG_LEVEL")] = "info"
    otlp_endpoint: Annotated[str | None, Setting("OTEL_EXPORTER_OTLP_ENDPOINT")] = None

    def check(self) -> None:
        """What a type does not say. Raises SettingsError."""
        if self.admin_token is None:
            if not is_loopback(self.host):
                raise SettingsError(
                    "AGENTCHAT_ADMIN_TOKEN is not set, so the console is open to whoever reaches it, and "
                    f"AGENTCHAT_HOST {self.host!r} must be a loopback address"
                )
            if self.console_url is not None:
                raise SettingsError("AGENTCHAT_CONSOLE_URL is set, and AGENTCHAT_ADMIN_TOKEN is not")
        else:
            _check_url(self.console_url)
        self.sealer()
        self.model_hosts()
        self.tool_hosts()
        self.webhook_hosts()
        self.watched()
        self.price_table()

    def watched(self) -> dict[str, str]:
        """The addresses of metrics by the names of processes. Raises SettingsError."""
        found = dict(each.partition("=")[::2] for each in self.services)
        for name, url in found.items():
            if not name or urlsplit(url).scheme != "http":
                raise SettingsError(
                    f"AGENTCHAT_CONSOLE_SERVICES {name!r}: must be name=http://host:port/metrics"
                )
        return found

    def model_hosts(self) -> Guard:
        """What judges the agents' base URLs. Raises SettingsError."""
        return guard_of(self.model_allow, "AGENTCHAT_MODEL_ALLOW")

    def tool_hosts(self) -> Guard:
        """What judges the addresses of the agents' tool servers. Raises SettingsError."""
        return guard_of(self.mcp_allow, "AGENTCHAT_MCP_ALLOW")

    def webhook_hosts(self) -> Guard:
        """What judges the addresses of webhook endpoints. Raises SettingsError."""
        return guard_of(self.webhook_allow, "AGENTCHAT_WEBHOOK_ALLOW", PORTS)

    def price_table(self) -> Prices:
        """What tokens cost. Raises SettingsError."""
        try:
            return Prices() if self.prices is None else read_prices(Path(self.prices))
        except UnreadablePrices as error:
            raise SettingsError(f"AGENTCHAT_PRICES: {error}") from None

    def sealer(self) -> Sealer:
        """What seals the secrets of agents. Raises SettingsError."""
        return sealer_of(self.secret_key, self.previous_secret_keys)


def _check_url(url: str | None) -> None:
    """Raises SettingsError."""
    if url is None:
        raise SettingsError("AGENTCHAT_CONSOLE_URL is not set, and AGENTCHAT_ADMIN_TOKEN needs it")
    parts = urlsplit(url)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not is_safe or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise SettingsError(
            f"AGENTCHAT_CONSOLE_URL {url!r} must be https://host, or http:// of a loopback address"
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
