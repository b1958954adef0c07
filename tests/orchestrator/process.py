"""An orchestrator in a process of its own, to be killed, stopped and told to end."""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from agentchat.orchestrator.settings import Settings
from tests.support.service_process import START_SECONDS, ServiceProcess, start_service


class Orchestrator:
    """A running process."""

    def __init__(self, process: ServiceProcess, log: Path) -> None:
        self._process = process
        self.log = log

    def send(self, number: signal.Signals) -> None:
        os.kill(self._process.pid, number)

    async def kill(self) -> None:
        self.send(signal.SIGKILL)
        await self._process.wait()

    async def wait_until_ready(self) -> None:
        """Return when it has said that it takes requests."""
        async with asyncio.timeout(START_SECONDS):
            while b'"event":"ready"' not in self.log.read_bytes():
                assert self._process.returncode is None, self.log.read_text()[-2000:]
                await asyncio.sleep(0.02)

    async def wait_until_ended(self, seconds: float = START_SECONDS) -> int:
        async with asyncio.timeout(seconds):
            return await self._process.wait()


@contextlib.asynccontextmanager
async def orchestrator(
    settings: Settings, name: str, *, code: str | None = None, **environment: str
) -> AsyncIterator[Orchestrator]:
    """One that is ready; of a program of its own where `code` is given."""
    async with start_orchestrator(settings, name, code=code, **environment) as process:
        await process.wait_until_ready()
        yield process


@contextlib.asynccontextmanager
async def start_orchestrator(
    settings: Settings, name: str, *, code: str | None = None, **environment: str
) -> AsyncIterator[Orchestrator]:
    """One that may become ready or not."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = start_service(
                *("orchestrator", "--name", name, "--run-dir", folder),
                env=os.environ | _build_environment(settings) | environment,
                stderr=output.fileno(),
                code=code,
            )
        try:
            yield Orchestrator(process, log)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def _build_environment(settings: Settings) -> dict[str, str]:
    return {
        "AGENTCHAT_DATABASE_URL": settings.database_url,
        "AGENTCHAT_NATS_URL": settings.nats_url,
        "AGENTCHAT_REDIS_URL": settings.redis_url,
        "AGENTCHAT_SECRET_KEY": settings.secret_key,
        "AGENTCHAT_FILES_URL": settings.files_url,
        "AGENTCHAT_HEALTH_PORT": "0",
        "ANTHROPIC_BASE_URL": settings.anthropic_base_url,
        "OPENAI_BASE_URL": settings.openai_base_url,
    }
