"""Serve the console on AGENTCHAT_HOST:AGENTCHAT_CONSOLE_PORT.

Example: `python -m agentchat.console --name console-1 --run-dir .run`.
"""

import asyncio
from pathlib import Path

from agentchat.console.settings import ConsoleSettings
from agentchat.runtime import worker
from agentchat.runtime.settings import SettingsError, load_or_exit, refuse


def main() -> None:
    """Read the settings, configure logs and traces, and serve until the process is stopped."""
    arguments = worker.parse_process_args()
    name = arguments.name or "console"
    settings = load_or_exit(ConsoleSettings)
    try:
        settings.check()
    except SettingsError as error:
        refuse(error)

    from agentchat.runtime import logs, tracing

    logs.configure(name, settings.log_level)
    tracing.configure("console", settings.otlp_endpoint)

    async def serve(stop: asyncio.Event) -> None:
        from agentchat.console import service
        from agentchat.ops.run_folder import RunFolder

        folder = RunFolder(Path(arguments.run_dir)) if arguments.run_dir else None
        await service.run(settings, name, stop, folder)

    worker.run(serve)


if __name__ == "__main__":
    main()
