"""Service processes for tests, started as in production by `python -m <service>`."""

import asyncio
import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping

from agentchat.ops.process import wrap_command

START_SECONDS = 90.0
"""How long a test waits for a process that it has started: 2 s on an idle machine, 20 s on a busy one."""


class ServiceProcess:
    """A running process. It is killed when the test process ends."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._exit_code: concurrent.futures.Future[int] = concurrent.futures.Future()
        threading.Thread(target=self._wait, daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id, also after the process has ended."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for the signal that ended the process; None while it runs."""
        return self._exit_code.result() if self._exit_code.done() else None

    def send_signal(self, number: int) -> None:
        """Send a signal. Does nothing if the process has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Return the exit code once the process has ended."""
        return await asyncio.shield(asyncio.wrap_future(self._exit_code))

    def join(self, seconds: float) -> int:
        """Return the exit code once the process has ended, for callers without an event loop.

        Raises:
            TimeoutError: The process still runs after `seconds`.
        """
        return self._exit_code.result(seconds)

    def _wait(self) -> None:
        self._exit_code.set_result(self._process.wait())


def start_service(
    service: str,
    *arguments: str,
    env: Mapping[str, str],
    stdout: int = 1,
    stderr: int = 2,
    code: str | None = None,
) -> ServiceProcess:
    """Start `python -m agentchat.<service> <arguments>` or `python -c <code> <arguments>`.

    Linux ends the process when the thread that started it ends: call this from the main thread.
    """
    program = ("-m", f"agentchat.{service}") if code is None else ("-c", code)
    command = wrap_command((sys.executable, *program, *arguments), signal.SIGKILL)
    return ServiceProcess(
        subprocess.Popen(
            command,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    )
