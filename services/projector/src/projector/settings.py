"""The settings of the projector, from its environment."""

from typing import Annotated, Literal

import msgspec

from runtime.settings import ServiceSettings, Setting

LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(ServiceSettings, frozen=True, kw_only=True):
    """All of it."""

    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]
    nats_url: Annotated[str, Setting("AGENTCHAT_NATS_URL", secret=True)]
    nats_provisioner_url: Annotated[str | None, Setting("AGENTCHAT_NATS_PROVISIONER_URL", secret=True)] = None
    """Of the user who may make streams, where `nats_url` has one who may not."""
    nats_replicas: Annotated[Literal[1, 3, 5], Setting("AGENTCHAT_NATS_REPLICAS")] = 1
    health_port: Annotated[int, msgspec.Meta(ge=0, le=65535), Setting("AGENTCHAT_HEALTH_PORT")]
    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    log_level: Annotated[LogLevel, Setting("AGENTCHAT_LOG_LEVEL")] = "info"
    otlp_endpoint: Annotated[str | None, Setting("OTEL_EXPORTER_OTLP_ENDPOINT")] = None
