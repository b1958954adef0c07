"""`python -m notifier --name notifier-1 --run-dir .run`: settings first, all else imported later."""

import asyncio
import os

from notifier.settings import Settings
from runtime import worker
from runtime.settings import load_or_exit

_NICENESS = 10


def main() -> None:
    """Start the process. Where it shares a machine with those who answer callers, they come first."""
    name = worker.parse_process_args().name or "notifier"
    settings = load_or_exit(Settings)
    os.nice(_NICENESS)

    from runtime import logs, telemetry

    logs.configure("notifier", settings.log_level)
    telemetry.configure("notifier", settings.otlp_endpoint)

    async def work(stop: asyncio.Event) -> None:
        from notifier.worker import work

        await work(settings, name, stop)

    worker.run(work)


if __name__ == "__main__":
    main()
