"""Define the gateway's settings, all from the environment."""

from typing import Annotated, Literal

import msgspec

from agentchat.contracts.webhooks import PORTS
from agentchat.directory.secret_encryption import Sealer, build_sealer
from agentchat.files.object_store import ObjectStore
from agentchat.files.settings import FilesUrl
from agentchat.knowledge.settings import EmbedderSettings
from agentchat.net_guard import Guard
from agentchat.net_guard.ssrf_guard import build_guard
from agentchat.runtime.client_address import parse_networks
from agentchat.runtime.prices import SETTING, load_prices
from agentchat.runtime.settings import Setting, SettingsError

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]

Connections = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]

Level = Literal["debug", "info", "warning", "error"]

AdminToken = Annotated[str, msgspec.Meta(min_length=16)]


class GatewaySettings(EmbedderSettings, frozen=True, kw_only=True):
    """Port 0 is any free one. `stream_form` is the form of streams whose request does not choose one.

    Without `admin_token` there is no admin API; with it the secret keys are needed, and the embedder is used.
    At `health_port` of the same host, if it is set, `/healthz`, `/readyz` and `/metrics` are served too:
    the public port has no metrics. `max_connections` is of this process; fewer if the system gives it
    fewer files. `http_parser`: httptools behind a reverse proxy; h11, which is slower, where clients connect
    directly: httptools loses the body of a request that offers h2c. `trusted_proxies` are addresses and
    networks whose X-Forwarded-For is believed. `demo_key` and `demo_agent_id` are shown to everybody who
    opens `/docs`. In a `rehearsal` every request that is not a GET is refused.
    """

    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]
    nats_url: Annotated[str, Setting("AGENTCHAT_NATS_URL", secret=True)]
    redis_url: Annotated[str, Setting("AGENTCHAT_REDIS_URL", secret=True)]
    files_url: FilesUrl
    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    port: Annotated[Port, Setting("AGENTCHAT_PORT")] = 8080
    health_port: Annotated[Port | None, Setting("AGENTCHAT_HEALTH_PORT")] = None
    max_connections: Annotated[Connections, Setting("AGENTCHAT_MAX_CONNECTIONS")] = 10_000
    http_parser: Annotated[Literal["httptools", "h11"], Setting("AGENTCHAT_HTTP_PARSER")] = "httptools"
    trusted_proxies: Annotated[tuple[str, ...], Setting("AGENTCHAT_TRUSTED_PROXIES")] = ()
    admin_token: Annotated[AdminToken | None, Setting("AGENTCHAT_ADMIN_TOKEN", secret=True)] = None
    secret_key: Annotated[str | None, Setting("AGENTCHAT_SECRET_KEY", secret=True)] = None
    previous_secret_keys: Annotated[
        tuple[str, ...], Setting("AGENTCHAT_SECRET_KEY_PREVIOUS", secret=True)
    ] = ()
    model_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_MODEL_ALLOW")] = ()
    mcp_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_MCP_ALLOW")] = ()
    webhook_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_WEBHOOK_ALLOW")] = ()
    files_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_FILES_ALLOW")] = ()
    prices: Annotated[str | None, Setting(SETTING)] = None
    rehearsal: Annotated[bool, Setting("AGENTCHAT_REHEARSAL")] = False
    stream_form: Annotated[Literal[1, 2], Setting("AGENTCHAT_STREAM_FORM")] = 1
    demo_key: Annotated[str | None, Setting("AGENTCHAT_DEMO_KEY", secret=True)] = None
    demo_agent_id: Annotated[str | None, Setting("AGENTCHAT_DEMO_AGENT_ID")] = None
    log_level: Annotated[Level, Setting("AGENTCHAT_LOG_LEVEL")] = "info"
    otlp_endpoint: Annotated[str | None, Setting("OTEL_EXPORTER_OTLP_ENDPOINT")] = None

    def check(self) -> None:
        """Check what types do not say. Raises SettingsError."""
        parse_networks(self.trusted_proxies)
        ObjectStore(self.files_url)
        if self.admin_token is not None:
            self.make_sealer()
        self.build_model_guard()
        self.build_tool_guard()
        self.build_webhook_guard()
        self.build_file_guard()
        load_prices(self.prices)

    def build_model_guard(self) -> Guard:
        """Build the guard of agents' base URLs. Raises SettingsError."""
        return build_guard(self.model_allow, "AGENTCHAT_MODEL_ALLOW")

    def build_tool_guard(self) -> Guard:
        """Build the guard of tool servers' addresses. Raises SettingsError."""
        return build_guard(self.mcp_allow, "AGENTCHAT_MCP_ALLOW")

    def build_webhook_guard(self) -> Guard:
        """Build the guard of webhook endpoints' addresses. Raises SettingsError."""
        return build_guard(self.webhook_allow, "AGENTCHAT_WEBHOOK_ALLOW", PORTS)

    def build_file_guard(self) -> Guard:
        """Build the guard of the URLs of files in requests. Raises SettingsError."""
        return build_guard(self.files_allow, "AGENTCHAT_FILES_ALLOW")

    def make_sealer(self) -> Sealer:
        """Build the sealer of agents' and webhook endpoints' secrets. Raises SettingsError."""
        if self.secret_key is None:
            raise SettingsError("AGENTCHAT_SECRET_KEY is not set, and AGENTCHAT_ADMIN_TOKEN needs it")
        return build_sealer(self.secret_key, self.previous_secret_keys)
