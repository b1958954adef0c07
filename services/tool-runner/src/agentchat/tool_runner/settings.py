"""Read the settings of the tool-runner from the environment."""

from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from agentchat.contracts.http import OAUTH_CALLBACK
from agentchat.directory.secret_encryption import Sealer, build_sealer
from agentchat.files.object_store import ObjectStore
from agentchat.files.settings import FilesUrl
from agentchat.net_guard import Guard
from agentchat.net_guard.ssrf_guard import build_guard
from agentchat.runtime.settings import ServiceSettings, Setting, SettingsError

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Slots = Annotated[int, msgspec.Meta(ge=1, le=1024)]


class ToolRunnerSettings(ServiceSettings, frozen=True, kw_only=True):
    """The settings of one process.

    `mcp_allow` lists host:port pairs that may be called although they are not public or not https.
    `gateway_url` is where gateways answer, for agents that call agents. `public_url` is the address at which
    browsers reach the gateways; authorization servers redirect there.
    """

    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]
    nats_url: Annotated[str, Setting("AGENTCHAT_NATS_URL", secret=True)]
    secret_key: Annotated[str, Setting("AGENTCHAT_SECRET_KEY", secret=True)]
    files_url: FilesUrl
    health_port: Annotated[Port, Setting("AGENTCHAT_HEALTH_PORT")]
    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    previous_secret_keys: Annotated[
        tuple[str, ...], Setting("AGENTCHAT_SECRET_KEY_PREVIOUS", secret=True)
    ] = ()
    mcp_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_MCP_ALLOW")] = ()
    gateway_url: Annotated[str, Setting("AGENTCHAT_GATEWAY_URL")] = "http://127.0.0.1:8080"
    public_url: Annotated[str | None, Setting("AGENTCHAT_PUBLIC_URL")] = None
    slots: Annotated[Slots, Setting("AGENTCHAT_TOOL_SLOTS")] = 64
    log_level: Annotated[str, Setting("AGENTCHAT_LOG_LEVEL")] = "info"
    otlp_endpoint: Annotated[str | None, Setting("OTEL_EXPORTER_OTLP_ENDPOINT")] = None

    def check(self) -> None:
        """Check what types do not say. Raises SettingsError."""
        ObjectStore(self.files_url)

    def guard(self) -> Guard:
        """Build the guard of tool servers' addresses. Raises SettingsError."""
        try:
            gateway = urlsplit(self.gateway_url)
            port = gateway.port or {"http": 80, "https": 443}[gateway.scheme]
        except (ValueError, KeyError):
            raise SettingsError("AGENTCHAT_GATEWAY_URL must be an http or https address") from None
        return build_guard((*self.mcp_allow, f"{gateway.hostname}:{port}"), "AGENTCHAT_MCP_ALLOW")

    @property
    def redirect_uri(self) -> str | None:
        """Return the address of the OAuth callback; None without a public URL."""
        return None if not self.public_url else self.public_url.rstrip("/") + OAUTH_CALLBACK

    def build_sealer(self) -> Sealer:
        """Build the sealer that opens the agents' headers. Raises SettingsError."""
        return build_sealer(self.secret_key, self.previous_secret_keys)
