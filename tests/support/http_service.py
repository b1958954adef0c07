"""A service that answers HTTP, as a process of its own on a free port, with the lines that it logs."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.support.service_process import START_SECONDS, ServiceProcess, start_service


class HttpService:
    """`python -m <service>`, which runs and is ready within `async with`.

    `port_setting` is the variable that sets its port.
    """

    def __init__(self, service: str, port_setting: str, folder: Path, environ: Mapping[str, str]) -> None:
        self._service = service
        self._log = folder / f"{service}.log"
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")},
            port_setting: "0",
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

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        self._read, self._lines = 0, []
        with self._log.open("wb") as log:
            self._process = start_service(
                self._service, "--name", f"{self._service}-1", env=self._environ, stderr=log.fileno()
            )
        async with asyncio.timeout(START_SECONDS):
            self.port = (await self.line("listening"))["port"]

    async def line(self, event: str, **fields: Any) -> dict[str, Any]:
        """Return the first log line with this event and these fields, once it is written."""
        while True:
            for line in self.lines():
                if line.get("event") == event and fields.items() <= line.items():
                    return line
            if self._process is not None and self._process.returncode is not None:
                raise AssertionError(f"the {self._service} ended: {self.text()[-2000:]}")
            await asyncio.sleep(0.02)

    def lines(self) -> list[dict[str, Any]]:
        """Return what it has logged so far."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            written, _, _ = log.read().rpartition(b"\n")
        self._read += len(written)
        self._lines += [json.loads(line) for line in written.split(b"\n") if line.startswith(b"{")]
        return self._lines

    def text(self) -> str:
        return self._log.read_text()

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    async def wait(self) -> int:
        """Return its exit code once it has ended."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        """Kill it if it runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
