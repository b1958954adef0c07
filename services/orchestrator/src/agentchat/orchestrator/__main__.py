"""Run the orchestrator: `python -m agentchat.orchestrator --name orchestrator-1 --run-dir .run`.

The settings are checked before the rest is imported, so that a missing variable is reported at once.
"""

import asyncio

from agentchat.orchestrator.settings import Settings
from agentchat.runtime import worker
from agentchat.runtime.settings import SettingsError, load_or_exit, refuse


def main() -> None:
    """Load the settings, configure logs and telemetry, and run the worker."""
    name = worker.parse_process_args().name or "orchestrator"
    settings = load_or_exit(Settings)
    try:
        settings.check()
    except SettingsError as error:
        refuse(error)

    from agentchat.runtime import logs, tracing

    logs.configure("orchestrator", settings.log_level)
    tracing.configure("orchestrator", settings.otlp_endpoint)

    async def work(stop: asyncio.Event) -> None:
        from agentchat.orchestrator.worker import run_worker

        await run_worker(settings, name, stop)

    worker.run(work)


if __name__ == "__main__":
    main()
