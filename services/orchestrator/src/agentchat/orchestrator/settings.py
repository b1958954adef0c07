"""Settings of the orchestrator, from environment variables."""

from typing import Annotated, Literal

import msgspec

from agentchat.files.object_store import ObjectStore
from agentchat.files.settings import FilesUrl
from agentchat.knowledge.settings import EmbedderSettings
from agentchat.net_guard import Guard
from agentchat.net_guard.ssrf_guard import build_guard
from agentchat.runtime.settings import Setting

LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(EmbedderSettings, frozen=True, kw_only=True):
    """Settings of the orchestrator.

    A provider's key serves agents that have no provider key and no base URL of their own. `model_allow` lists
    host:port pairs that an agent's base URL may use though they are not public, or not https.
    """

    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]
    nats_url: Annotated[str, Setting("AGENTCHAT_NATS_URL", secret=True)]
    redis_url: Annotated[str, Setting("AGENTCHAT_REDIS_URL", secret=True)]
    secret_key: Annotated[str, Setting("AGENTCHAT_SECRET_KEY", secret=True)]
    files_url: FilesUrl
    health_port: Annotated[int, msgspec.Meta(ge=0, le=65535), Setting("AGENTCHAT_HEALTH_PORT")]
    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    anthropic_base_url: Annotated[str, Setting("ANTHROPIC_BASE_URL")] = "https://api.anthropic.com"
    anthropic_api_key: Annotated[str | None, Setting("ANTHROPIC_API_KEY", secret=True)] = None
    openai_base_url: Annotated[str, Setting("OPENAI_BASE_URL")] = "https://api.openai.com/v1"
    openai_api_key: Annotated[str | None, Setting("OPENAI_API_KEY", secret=True)] = None
    model_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_MODEL_ALLOW")] = ()
    previous_secret_keys: Annotated[
        tuple[str, ...], Setting("AGENTCHAT_SECRET_KEY_PREVIOUS", secret=True)
    ] = ()
    run_slots: Annotated[int, msgspec.Meta(ge=1, le=10_000), Setting("AGENTCHAT_RUN_SLOTS")] = 1000
    unlisted_hours: Annotated[float, msgspec.Meta(gt=0), Setting("AGENTCHAT_UNLISTED_HOURS")] = 24.0
    """How long a conversation that no list shows is kept after its last event."""
    log_level: Annotated[LogLevel, Setting("AGENTCHAT_LOG_LEVEL")] = "info"
    otlp_endpoint: Annotated[str | None, Setting("OTEL_EXPORTER_OTLP_ENDPOINT")] = None

    def check(self) -> None:
        """Check what types do not say. Raises SettingsError."""
        ObjectStore(self.files_url)

    def guard(self) -> Guard:
        """Build the guard that checks agents' own base URLs. Raises SettingsError."""
        return build_guard(self.model_allow, "AGENTCHAT_MODEL_ALLOW")
