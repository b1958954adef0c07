import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentchat.limits import Limiter
from agentchat.ops.servers.server_files import find_valkey_server
from tests.ports import find_free_port

_READY_SECONDS = 40


class Valkey:
    """A server of the test's own, to be frozen, killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: Process | None = None
        self._port = find_free_port()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            find_valkey_server(),
            *("--bind", "127.0.0.1", "--port", str(self._port), "--dir", str(self._folder), "--save", ""),
            stdout=DEVNULL,
        )
        async with asyncio.timeout(_READY_SECONDS):
            while not await self._is_listening():  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def freeze(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    async def _is_listening(self) -> bool:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.close()
            return True
        return False


@pytest.fixture
async def valkey(tmp_path: Path) -> AsyncIterator[Valkey]:
    server = Valkey(tmp_path)
    await server.start()
    yield server
    await server.kill()


@pytest.fixture
async def limiter(redis_url: str) -> AsyncIterator[Limiter]:
    opened = Limiter(redis_url, instance="test", timeout=5)
    yield opened
    await opened.aclose()
