"""A notifier as a process of its own."""

import contextlib
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.support.service_process import ServiceProcess, start_service

_HURRIED = """
import importlib, json, sys
from notifier.__main__ import main
for name, value in json.loads(sys.argv.pop(1)).items():
    module, _, constant = name.rpartition(".")
    found = importlib.import_module(module)
    getattr(found, constant)
    setattr(found, constant, value)
main()
"""


class NotifierProcess:
    """`python -m notifier`; `hurry` sets constants of modules, as they are used."""

    def __init__(self, folder: Path, environ: Mapping[str, str], hurry: Mapping[str, object]) -> None:
        self._log = folder / "notifier.log"
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")},
            "AGENTCHAT_HEALTH_PORT": "0",
            **environ,
        }
        self._hurry = json.dumps(dict(hurry))
        self._process: ServiceProcess | None = None

    def start(self, name: str = "notifier-1") -> None:
        with self._log.open("ab") as log:
            self._process = start_service(
                *("notifier", self._hurry, "--name", name),
                env=self._environ,
                stderr=log.fileno(),
                code=_HURRIED,
            )

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """On the spot, and until it is gone."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        await self._process.wait()

    def connections(self) -> int:
        """How many it has open to Postgres."""
        assert self._process is not None
        found = psutil.Process(self._process.pid).net_connections("tcp")
        return sum(each.status == psutil.CONN_ESTABLISHED for each in found)

    def text(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    async def end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            await self._process.wait()
