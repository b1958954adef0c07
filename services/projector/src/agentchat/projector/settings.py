"""Settings of the projector, from environment variables."""

from typing import Annotated, Literal

import msgspec

from agentchat.contracts.webhooks import PORTS
from agentchat.directory.secret_encryption import Sealer, build_sealer
from agentchat.files.object_store import ObjectStore
from agentchat.files.settings import FilesUrl
from agentchat.net_guard import Guard
from agentchat.net_guard.ssrf_guard import build_guard
from agentchat.runtime.prices import SETTING, load_prices
from agentchat.runtime.settings import ServiceSettings, Setting

LogLevel = Literal["debug", "info", "warning", "error"]


class ProjectorSettings(ServiceSettings, frozen=True, kw_only=True):
    """Settings of the projector.

    `prices` is a JSON file with the prices of models, in place of the list prices that come with it.
    In a `rehearsal` it keeps up the read models and does nothing else. `webhook_allow` lists host:port pairs
    that webhook endpoints may have although they are not public or not https.
    """

    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]
    nats_url: Annotated[str, Setting("AGENTCHAT_NATS_URL", secret=True)]
    nats_provisioner_url: Annotated[str | None, Setting("AGENTCHAT_NATS_PROVISIONER_URL", secret=True)] = None
    """The address for the user who may make streams, if the one in `nats_url` may not."""
    nats_replicas: Annotated[Literal[1, 3, 5], Setting("AGENTCHAT_NATS_REPLICAS")] = 1
    secret_key: Annotated[str, Setting("AGENTCHAT_SECRET_KEY", secret=True)]
    previous_secret_keys: Annotated[
        tuple[str, ...], Setting("AGENTCHAT_SECRET_KEY_PREVIOUS", secret=True)
    ] = ()
    webhook_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_WEBHOOK_ALLOW")] = ()
    files_url: FilesUrl
    prices: Annotated[str | None, Setting(SETTING)] = None
    rehearsal: Annotated[bool, Setting("AGENTCHAT_REHEARSAL")] = False
    health_port: Annotated[int, msgspec.Meta(ge=0, le=65535), Setting("AGENTCHAT_HEALTH_PORT")]
    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    log_level: Annotated[LogLevel, Setting("AGENTCHAT_LOG_LEVEL")] = "info"
    otlp_endpoint: Annotated[str | None, Setting("OTEL_EXPORTER_OTLP_ENDPOINT")] = None

    def check(self) -> None:
        """Check what types do not say. Raises SettingsError."""
        ObjectStore(self.files_url)
        load_prices(self.prices)

    def build_sealer(self) -> Sealer:
        """Return the sealer that opens the secrets of endpoints. Raises SettingsError."""
        return build_sealer(self.secret_key, self.previous_secret_keys)

    def build_webhook_guard(self) -> Guard:
        """Return the guard that checks the addresses of endpoints. Raises SettingsError."""
        return build_guard(self.webhook_allow, "AGENTCHAT_WEBHOOK_ALLOW", PORTS)
