"""A NATS that could not write is started again, and has what it had acknowledged."""

import asyncio
import sys
from pathlib import Path

import pytest


async def test_nats_takes_messages_again_when_its_disk_has_room_again(tmp_path: Path) -> None:
    running = await asyncio.create_subprocess_exec(  # a process of its own, for mounts of its own
        *(sys.executable, "-m", "tests.stack.full_disk", str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, errors = await running.communicate()
    if running.returncode == 77:
        pytest.skip("user namespaces are not allowed here, so no disk is filled")
    assert (running.returncode, printed.decode()) == (0, "b'the first'\n"), errors.decode()[-2000:]
