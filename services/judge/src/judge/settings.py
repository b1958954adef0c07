"""The judge's settings, from the environment."""

from typing import Annotated, Literal

import msgspec

from runtime.settings import ServiceSettings, Setting

LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """NATS leads to the orchestrators, which ask the models that judge."""

    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]
    nats_url: Annotated[str, Setting("AGENTCHAT_NATS_URL", secret=True)]
    health_port: Annotated[int, msgspec.Meta(ge=0, le=65535), Setting("AGENTCHAT_HEALTH_PORT")]
    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    log_level: Annotated[LogLevel, Setting("AGENTCHAT_LOG_LEVEL")] = "info"
    otlp_endpoint: Annotated[str | None, Setting("OTEL_EXPORTER_OTLP_ENDPOINT")] = None
