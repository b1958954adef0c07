"""A nats-server that tests stop, kill, freeze and wipe."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

BINARY = Path(sys.executable).parent / "nats-server"
_SETTINGS = """
max_payload: 8MB
jetstream { max_memory_store: 10TB, max_file_store: 100TB, sync_interval: 1s }
"""
"""Streams reserve their most bytes, for each account on a shared server."""


class NatsServer:
    """One nats-server with JetStream on a free loopback port, which it keeps over restarts."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        """`settings` are more lines for its settings file."""
        self.folder = folder
        self._settings = _SETTINGS + settings
        self.port = -1
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> None:
        ports = self.folder / "ports"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir(parents=True)
        settings = self.folder / "nats.conf"
        settings.write_text(self._settings)
        arguments = ["-c", str(settings), "-a", "127.0.0.1", "-p", str(self.port)]
        arguments += ["-sd", str(self.folder / "store")]
        self._process = await asyncio.create_subprocess_exec(
            str(BINARY), *arguments, "--ports_file_dir", str(ports), stderr=asyncio.subprocess.DEVNULL
        )
        async with asyncio.timeout(20):
            while (port := _read_port(ports)) is None:  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.02)
        self.port = port

    async def kill(self, *, wipe: bool = False) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        await self._process.wait()
        if wipe:
            shutil.rmtree(self.folder / "store", ignore_errors=True)

    async def freeze(self) -> None:
        """Suspend the server and wait until it has stopped: a signal takes its time with many threads."""
        assert self._process is not None
        process = psutil.Process(self._process.pid)
        process.suspend()
        async with asyncio.timeout(5):
            while process.status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.005)

    def thaw(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


def _read_port(folder: Path) -> int | None:
    """Read the port from the server's file; None while the file is absent or incomplete."""
    for path in folder.glob("*.ports"):
        with contextlib.suppress(json.JSONDecodeError):
            return int(json.loads(path.read_text())["nats"][0].rpartition(":")[2])
    return None


def render_accounts(names: Sequence[str]) -> str:
    """Settings for accounts with streams and subjects of their own, each with a user of its name."""
    lines = (f"{name}: {{jetstream: enabled, users: [{{user: {name}, password: x}}]}}" for name in names)
    return "accounts {\n" + "\n".join(lines) + "\n}\n"
