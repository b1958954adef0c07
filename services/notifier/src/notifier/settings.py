"""The notifier's settings, from the environment."""

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from runtime.settings import ServiceSettings, Setting

if TYPE_CHECKING:
    from directory.secrets import Sealer
    from net_guard import Guard

LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """`allow` lists host:port pairs that endpoints may have though they are not public, or not https."""

    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]
    secret_key: Annotated[str, Setting("AGENTCHAT_SECRET_KEY", secret=True)]
    previous_secret_keys: Annotated[
        tuple[str, ...], Setting("AGENTCHAT_SECRET_KEY_PREVIOUS", secret=True)
    ] = ()
    allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_WEBHOOK_ALLOW")] = ()
    health_port: Annotated[int, msgspec.Meta(ge=0, le=65535), Setting("AGENTCHAT_HEALTH_PORT")]
    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    log_level: Annotated[LogLevel, Setting("AGENTCHAT_LOG_LEVEL")] = "info"
    otlp_endpoint: Annotated[str | None, Setting("OTEL_EXPORTER_OTLP_ENDPOINT")] = None

    def guard(self) -> "Guard":
        """What judges the addresses of endpoints. Raises SettingsError."""
        from contracts.webhooks import PORTS
        from net_guard.guard import guard_of

        return guard_of(self.allow, "AGENTCHAT_WEBHOOK_ALLOW", PORTS)

    def sealer(self) -> "Sealer":
        """What opens the endpoints' secrets. Raises SettingsError."""
        from directory.secrets import sealer_of

        return sealer_of(self.secret_key, self.previous_secret_keys)
