"""`python -m tests.chaos.run` as a test starts it."""

import asyncio
import contextlib
import signal
import sys

from agentchat.ops.process import wrap_command


async def run_chaos(*arguments: str) -> tuple[int | None, str]:
    """Run the command to its end; return its exit code and output.

    It is killed, and its stack with it, when the test is cancelled or the process of the test dies.
    """
    command = wrap_command((sys.executable, "-m", "tests.chaos.run", *arguments), signal.SIGKILL)
    running = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        printed, _ = await running.communicate()
    finally:
        if running.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                running.kill()
    return running.returncode, printed.decode()
