"""Run the demo tool server: `python -m agentchat.mcp_demo --name mcp-demo --run-dir .run`."""

import asyncio
from typing import Annotated, Literal

import msgspec

from agentchat.runtime import worker
from agentchat.runtime.settings import Setting, load_or_exit

Name = Annotated[str, msgspec.Meta(pattern=r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$")]


class McpDemoSettings(msgspec.Struct, frozen=True):
    """The settings of the process; the default is a free port of the loopback address."""

    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535), Setting("AGENTCHAT_MCP_PORT")] = 0
    hosts: Annotated[tuple[Name, ...], Setting("AGENTCHAT_MCP_HOSTS")] = ()
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Setting("AGENTCHAT_LOG_LEVEL")] = (
        "info"
    )
    otlp_endpoint: Annotated[str | None, Setting("OTEL_EXPORTER_OTLP_ENDPOINT")] = None


async def serve(settings: McpDemoSettings, stop: asyncio.Event) -> None:
    """Serve until `stop`, then give running requests 1 s to finish."""
    from agentchat.mcp_demo.app import build_app, build_security_settings
    from agentchat.runtime import uvicorn_server
    from agentchat.runtime.health_and_metrics import HealthChecks

    # It depends on no other service, so it is ready once it answers.
    app = await build_app(build_security_settings(settings.host, settings.hosts), HealthChecks({}))
    await uvicorn_server.serve(app, settings.host, settings.port, stop, grace_s=1.0)


def main() -> None:
    """Read the settings and serve until a signal to stop."""
    worker.parse_process_args()
    settings = load_or_exit(McpDemoSettings)

    from agentchat.runtime import logs, tracing

    logs.configure("mcp-demo", settings.log_level)
    tracing.configure("mcp-demo", settings.otlp_endpoint)
    worker.run(lambda stop: serve(settings, stop))


if __name__ == "__main__":
    main()
