"""`python -m tool_runner --name tool-runner-1 --run-dir .run`: run tools until a signal to stop."""

import asyncio

from agentchat.runtime import worker
from agentchat.runtime.settings import SettingsError, load_or_exit, refuse
from agentchat.tool_runner.settings import ToolRunnerSettings


def main() -> None:
    name = worker.parse_process_args().name or "tool-runner"
    settings = load_or_exit(ToolRunnerSettings)
    try:
        guard, sealer = settings.guard(), settings.sealer()
    except SettingsError as error:
        refuse(error)

    async def run(stop: asyncio.Event) -> None:
        from agentchat.tool_runner.worker import work

        await work(settings, name, guard, sealer, stop)

    worker.run(run)


if __name__ == "__main__":
    main()
