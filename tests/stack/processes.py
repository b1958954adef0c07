"""What runs for a folder, as `ps` shows it, and a chat with it."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil

from tests.harness import RunningStack

SERVERS = {"postgres", "nats", "valkey"}


def running_for(folder: Path) -> dict[int, str]:
    """Process id to command line, of every process that names the folder in it or works within it."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = " ".join(process.cmdline())
            if process.status() != psutil.STATUS_ZOMBIE and (
                str(folder) in command or Path(process.cwd()).is_relative_to(folder)
            ):
                found[process.pid] = command
    return found


async def until(condition: Callable[[], bool], seconds: float = 40.0) -> None:
    """Until the condition, which other processes bring about, holds. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - no event comes from there
            await asyncio.sleep(0.05)


async def wait_none_running(folder: Path, seconds: float = 40.0) -> None:
    """Until nothing runs for the folder; fails with what does."""
    with contextlib.suppress(TimeoutError):
        await until(lambda: not running_for(folder), seconds)
    assert running_for(folder) == {}


async def chat(stack: RunningStack, key: str, agent: str, message: str = "Hello") -> httpx.Response:
    """One chat by the JSON endpoint."""
    headers = {"X-Api-Key": key, "X-Agent-Id": agent}
    async with httpx.AsyncClient(base_url=stack.environment.base_url, timeout=30) as client:
        return await client.post("/v1/chat", headers=headers, json={"message": message})
