"""A gateway as a process of its own, on real servers."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.service_process import START_SECONDS, ServiceProcess, start_service


class GatewayProcess:
    """`python -m gateway` on a free port."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._log = folder / "gateway.log"
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")},
            "AGENTCHAT_PORT": "0",
            **environ,
        }
        self._process: ServiceProcess | None = None
        self.port = 0
        self._read = 0
        self._lines: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        self._read, self._lines = 0, []
        with self._log.open("wb") as log:
            self._process = start_service(
                "gateway", "--name", "gateway-1", env=self._environ, stderr=log.fileno()
            )
        async with asyncio.timeout(START_SECONDS):
            self.port = (await self.line("listening"))["port"]

    async def line(self, event: str, **fields: Any) -> dict[str, Any]:
        """The first log line with this event and these fields, once it is written."""
        while True:
            for line in self.lines():
                if line.get("event") == event and fields.items() <= line.items():
                    return line
            if self._process is not None and self._process.returncode is not None:
                raise AssertionError(f"the gateway ended: {self._log.read_text()[-2000:]}")
            await asyncio.sleep(0.02)

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged so far."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            written, _, _ = log.read().rpartition(b"\n")
        self._read += len(written)
        self._lines += [json.loads(line) for line in written.split(b"\n") if line.startswith(b"{")]
        return self._lines

    def text(self) -> str:
        return self._log.read_text()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    async def wait(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@contextlib.asynccontextmanager
async def gateway_process(folder: Path, environ: Mapping[str, str]) -> AsyncIterator[GatewayProcess]:
    """It runs and is ready while the block runs."""
    process = GatewayProcess(folder, environ)
    await process.start()
    try:
        yield process
    finally:
        await process.stop()
