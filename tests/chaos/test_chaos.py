"""A short run with a fixed seed: every invariant holds while the stack is hurt about once a second."""

import asyncio
import sys

import pytest

from tests.chaos.run import OUTPUT

SEED = 31443


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_no_invariant_is_violated_while_processes_and_links_fail() -> None:
    arguments = f"--seed {SEED} --requests 40 --minutes 0.2 --every 1 --longest 3 --rebuilds 0"
    running = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "tests.chaos.run",
            "faults",
            *arguments.split(),
            "--output",
            str(OUTPUT / "test"),
        ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await running.communicate()
    assert running.returncode == 0, printed.decode()
