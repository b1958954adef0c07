"""`python -m tests.stack.start_servers FOLDER`: serve until stdin ends; says `ready USER-ID` on stdout."""

import asyncio
import os
import sys
from pathlib import Path

from agentchat.ops.run_folder import RunFolder
from agentchat.ops.stack import describe_servers
from agentchat.ops.stack_report import Report
from agentchat.ops.supervisor import Supervisor


async def _serve(folder: RunFolder) -> None:
    folder.create()
    servers = describe_servers(folder, "a-password", fast=True)
    async with Supervisor(folder, servers.processes, Report()) as supervisor:
        await supervisor.wait_up(30)
        sys.stdout.write(f"ready {os.geteuid()}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(RunFolder(Path(sys.argv[1]))))
