"""Run the tool-runner.

`python -m agentchat.tool_runner --name tool-runner-1 --run-dir .run`.
"""

import asyncio

from agentchat.runtime import worker
from agentchat.runtime.settings import SettingsError, load_or_exit, refuse
from agentchat.tool_runner.settings import ToolRunnerSettings


def main() -> None:
    """Read the settings and run until a signal to stop."""
    name = worker.parse_process_args().name or "tool-runner"
    settings = load_or_exit(ToolRunnerSettings)
    try:
        settings.check()
        guard, sealer = settings.guard(), settings.build_sealer()
    except SettingsError as error:
        refuse(error)

    async def run(stop: asyncio.Event) -> None:
        from agentchat.tool_runner.worker import run_tool_runner

        await run_tool_runner(settings, name, guard, sealer, stop)

    worker.run(run)


if __name__ == "__main__":
    main()
