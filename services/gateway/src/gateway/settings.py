"""The gateway's settings, all from the environment."""

from typing import Annotated, Literal

import msgspec

from runtime.settings import Setting

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]

Level = Literal["debug", "info", "warning", "error"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Port 0 is any free one. `stream_form` is the form of streams whose request does not choose one."""

    database_url: Annotated[str, Setting("AGENTCHAT_DATABASE_URL", secret=True)]
    nats_url: Annotated[str, Setting("AGENTCHAT_NATS_URL", secret=True)]
    redis_url: Annotated[str, Setting("AGENTCHAT_REDIS_URL", secret=True)]
    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    port: Annotated[Port, Setting("AGENTCHAT_PORT")] = 8080
    stream_form: Annotated[Literal[1, 2], Setting("AGENTCHAT_STREAM_FORM")] = 1
    log_level: Annotated[Level, Setting("AGENTCHAT_LOG_LEVEL")] = "info"
    otlp_endpoint: Annotated[str | None, Setting("OTEL_EXPORTER_OTLP_ENDPOINT")] = None
