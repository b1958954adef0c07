"""A console as a process of its own, on real servers."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.service_process import START_SECONDS, ServiceProcess, start_service

URL = "https://console.example"
TOKEN = "the-administrators-token"
GUARDED = {"AGENTCHAT_ADMIN_TOKEN": TOKEN, "AGENTCHAT_CONSOLE_URL": URL}


class ConsoleProcess:
    """`python -m console` on a free port."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._log = folder / "console.log"
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")},
            "AGENTCHAT_CONSOLE_PORT": "0",
            **environ,
        }
        self._process: ServiceProcess | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        with self._log.open("wb") as log:
            self._process = start_service(
                "console", "--name", "console-1", env=self._environ, stderr=log.fileno()
            )
        async with asyncio.timeout(START_SECONDS):
            self.port = (await self._line("listening"))["port"]

    async def _line(self, event: str) -> dict[str, Any]:
        """The first log line of this event, once it is written."""
        while True:
            for line in self._log.read_text().splitlines():
                if line.startswith("{") and (found := json.loads(line)).get("event") == event:
                    assert isinstance(found, dict)
                    return found
            if self._process is not None and self._process.returncode is not None:
                raise AssertionError(f"the console ended: {self._log.read_text()[-2000:]}")
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@contextlib.asynccontextmanager
async def console_process(folder: Path, environ: Mapping[str, str]) -> AsyncIterator[ConsoleProcess]:
    """It runs and is ready while the block runs."""
    process = ConsoleProcess(folder, environ)
    await process.start()
    try:
        yield process
    finally:
        await process.stop()
