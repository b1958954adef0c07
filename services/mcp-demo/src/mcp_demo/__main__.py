"""`python -m mcp_demo --name mcp-demo --run-dir .run`"""

import asyncio

from mcp_demo.settings import McpDemoSettings
from runtime import worker
from runtime.settings import load_or_exit


async def serve(settings: McpDemoSettings, stop: asyncio.Event) -> None:
    """Serve until `stop`; requests under way then have a second to end."""
    from mcp_demo.app import allowed, build_app
    from runtime import web
    from runtime.health import HealthChecks

    # It depends on no other service: it is ready once it answers.
    app = build_app(allowed(settings.host, settings.hosts), HealthChecks({}))
    await web.serve(app, settings.host, settings.port, stop, grace_s=1.0)


def main() -> None:
    """Read the settings, then run."""
    worker.parse_process_args()
    settings = load_or_exit(McpDemoSettings)

    from runtime import logs, telemetry

    logs.configure("mcp-demo", settings.log_level)
    telemetry.configure("mcp-demo", settings.otlp_endpoint)
    worker.run(lambda stop: serve(settings, stop))


main()
