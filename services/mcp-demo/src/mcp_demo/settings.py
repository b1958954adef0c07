"""The environment variables of this service."""

from typing import Annotated, Literal

import msgspec

from runtime.settings import Setting

Name = Annotated[str, msgspec.Meta(pattern=r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$")]


class McpDemoSettings(msgspec.Struct, frozen=True):
    """Everything has a default: without any variable the server uses a free port of the loopback address."""

    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535), Setting("AGENTCHAT_MCP_PORT")] = 0
    hosts: Annotated[tuple[Name, ...], Setting("AGENTCHAT_MCP_HOSTS")] = ()
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Setting("AGENTCHAT_LOG_LEVEL")] = (
        "info"
    )
    otlp_endpoint: Annotated[str | None, Setting("OTEL_EXPORTER_OTLP_ENDPOINT")] = None
