"""Run `python -m agentchat.projector --name projector-1 --run-dir .run`.

Settings first, then the imports.
"""

import asyncio

from agentchat.projector.settings import ProjectorSettings
from agentchat.runtime import worker
from agentchat.runtime.settings import SettingsError, load_or_exit, refuse


def main() -> None:
    """Start the process."""
    name = worker.parse_process_args().name or "projector"
    settings = load_or_exit(ProjectorSettings)
    try:
        settings.check()
    except SettingsError as error:
        refuse(error)

    from agentchat.runtime import logs, tracing

    logs.configure("projector", settings.log_level)
    tracing.configure("projector", settings.otlp_endpoint)

    async def work(stop: asyncio.Event) -> None:
        from agentchat.projector.worker import work

        await work(settings, name, stop)

    worker.run(work)


if __name__ == "__main__":
    main()
