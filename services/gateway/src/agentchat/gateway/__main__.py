"""Run a gateway: `python -m agentchat.gateway --name gateway-1 --run-dir .run`."""

import asyncio

from agentchat.gateway.settings import GatewaySettings
from agentchat.runtime import worker
from agentchat.runtime.settings import SettingsError, load_or_exit, refuse


def main() -> None:
    """Load the settings and serve HTTP on AGENTCHAT_HOST:AGENTCHAT_PORT."""
    arguments = worker.parse_process_args()
    settings = load_or_exit(GatewaySettings)
    try:
        settings.check()
    except SettingsError as error:
        refuse(error)

    from agentchat.runtime import logs, tracing

    name = arguments.name or "gateway"
    logs.configure(name, settings.log_level)
    tracing.configure("gateway", settings.otlp_endpoint)

    async def serve(stop: asyncio.Event) -> None:
        from agentchat.gateway import service

        await service.run(settings, name, stop)

    worker.run(serve)


if __name__ == "__main__":
    main()
