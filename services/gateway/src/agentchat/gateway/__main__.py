"""`python -m gateway --name gateway-1 --run-dir .run`: serve HTTP on AGENTCHAT_HOST:AGENTCHAT_PORT."""

import asyncio

from agentchat.gateway.settings import Settings
from agentchat.runtime import worker
from agentchat.runtime.settings import SettingsError, load_or_exit, refuse


def main() -> None:
    arguments = worker.parse_process_args()
    settings = load_or_exit(Settings)
    try:
        settings.check()
    except SettingsError as error:
        refuse(error)

    from agentchat.runtime import logs, telemetry

    name = arguments.name or "gateway"
    logs.configure(name, settings.log_level)
    telemetry.configure("gateway", settings.otlp_endpoint)

    async def serve(stop: asyncio.Event) -> None:
        from agentchat.gateway import service

        await service.run(settings, name, stop)

    worker.run(serve)


if __name__ == "__main__":
    main()
