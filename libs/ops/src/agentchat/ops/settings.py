"""Define the settings of `agentchat up`."""

from typing import Annotated

import msgspec

from agentchat.runtime.settings import ServiceSettings, Setting

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
AdminToken = Annotated[str, msgspec.Meta(min_length=16)]


class UpSettings(ServiceSettings, frozen=True, kw_only=True):
    """Settings of `agentchat up`. Port 0 is any free port; a server's URL replaces the embedded server.

    `port` defaults to 8080, or a free port if 8080 is in use. `secret_key` and `admin_token` default to those
    stored in the run folder. A `rehearsal` only reads, and has no orchestrators and tool-runners.
    """

    rehearsal: Annotated[bool, Setting("AGENTCHAT_REHEARSAL")] = False
    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    port: Annotated[Port | None, Setting("AGENTCHAT_PORT")] = None
    mcp_port: Annotated[Port, Setting("AGENTCHAT_MCP_PORT")] = 0
    console_port: Annotated[Port, Setting("AGENTCHAT_CONSOLE_PORT")] = 0
    database_url: Annotated[str | None, Setting("AGENTCHAT_DATABASE_URL", secret=True)] = None
    nats_url: Annotated[str | None, Setting("AGENTCHAT_NATS_URL", secret=True)] = None
    redis_url: Annotated[str | None, Setting("AGENTCHAT_REDIS_URL", secret=True)] = None
    secret_key: Annotated[str | None, Setting("AGENTCHAT_SECRET_KEY", secret=True)] = None
    previous_secret_keys: Annotated[
        tuple[str, ...], Setting("AGENTCHAT_SECRET_KEY_PREVIOUS", secret=True)
    ] = ()
    admin_token: Annotated[AdminToken | None, Setting("AGENTCHAT_ADMIN_TOKEN", secret=True)] = None
    mcp_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_MCP_ALLOW")] = ()
    model_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_MODEL_ALLOW")] = ()
    webhook_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_WEBHOOK_ALLOW")] = ()
    files_allow: Annotated[tuple[str, ...], Setting("AGENTCHAT_FILES_ALLOW")] = ()
    anthropic_api_key: Annotated[str | None, Setting("ANTHROPIC_API_KEY", secret=True)] = None
    anthropic_base_url: Annotated[str, Setting("ANTHROPIC_BASE_URL")] = "https://api.anthropic.com"
    openai_api_key: Annotated[str | None, Setting("OPENAI_API_KEY", secret=True)] = None
    openai_base_url: Annotated[str, Setting("OPENAI_BASE_URL")] = "https://api.openai.com/v1"


class ProcessCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of processes by service."""

    gateways: int = 1
    orchestrators: int = 1
    tool_runners: int = 1
    projectors: int = 1
