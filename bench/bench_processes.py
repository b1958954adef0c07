"""The processes that stand next to what is measured."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from ops.process import wrapped

ROOT = Path(__file__).parents[1]
_START_SECONDS = 30.0


class Started(msgspec.Struct, frozen=True):
    """A process that serves on a port of this machine."""

    pid: int
    url: str


@contextlib.asynccontextmanager
async def serving(*command: str) -> AsyncIterator[Started]:
    """A process that prints its port when it is ready; ended with the block. Raises TimeoutError."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    ended_with_this = wrapped(command, signal.SIGTERM)
    process = await asyncio.create_subprocess_exec(*ended_with_this, cwd=ROOT, stdout=pipe, stdin=nothing)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_START_SECONDS):
            port = int(await process.stdout.readline())
        yield Started(process.pid, f"http://127.0.0.1:{port}")
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@contextlib.asynccontextmanager
async def lean_upstream() -> AsyncIterator[Started]:
    """`bench.upstream` while the block runs."""
    async with serving(sys.executable, "-m", "bench.upstream") as started:
        yield started
