"""One round of each change of the primary: what clients were told is in the log, and EVENTS has the log."""

import asyncio
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_no_message_is_lost_when_postgres_fails_over(tmp_path: Path) -> None:
    arguments = f"--way synchronous --rounds 1 --streams 4 --pause 2 --output {tmp_path}"
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos.run", "failover", *arguments.split()),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await running.communicate()
    assert running.returncode == 0, printed.decode()
