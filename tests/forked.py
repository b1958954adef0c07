"""Service processes for tests, each forked from a process that has imported the service before.

Importing takes a service 1 to 3 s of CPU, and `make test` starts some 200 of them. From the fork on all is as
`python -m` does it. How they start from nothing is tested where `agentchat up` starts them.
"""

import asyncio
import concurrent.futures
import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

_IMPORTED = {
    "gateway": "gateway.service",
    "orchestrator": "orchestrator.worker",
    "tool_runner": "tool_runner.worker",
    "projector": "projector.worker",
    "notifier": "notifier.serving",
    "mcp_demo": "mcp_demo.app",
    "model_demo": "model_demo.app",
}
_FORKER = Path(__file__).with_name("forker.py")
_FORK_SECONDS = 80.0
"""The first fork of a service waits for its import, next to whatever else runs."""


class ForkedProcess:
    """One process. `returncode` is None while it runs, and negative for the signal that ended it."""

    def __init__(self, pid: int, ended: "concurrent.futures.Future[int]") -> None:
        self.pid = pid
        self._ended = ended

    @property
    def returncode(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    def send_signal(self, number: int) -> None:
        """Nothing happens to one that has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        return await asyncio.wrap_future(self._ended)

    def join(self, seconds: float) -> int:
        """The same for callers without an event loop. Raises TimeoutError."""
        return self._ended.result(seconds)


def start(
    service: str,
    *arguments: str,
    env: Mapping[str, str],
    stdout: int = 1,
    stderr: int = 2,
    code: str | None = None,
) -> ForkedProcess:
    """`python -m <service> <arguments>`, or `python -c <code> <arguments>`, with these descriptors."""
    with _importing:
        forker = _forker(service)
    return forker.fork(code, arguments, env, stdout, stderr)


async def started(
    service: str,
    *arguments: str,
    env: Mapping[str, str],
    stdout: int = 1,
    stderr: int = 2,
    code: str | None = None,
) -> ForkedProcess:
    """The same while the event loop goes on.

    The first fork of a service waits for its import, on a loaded machine for longer than others on the loop
    may hold a connection: each use of one has a deadline, which is noticed after the wait.
    """
    return await asyncio.to_thread(
        start, service, *arguments, env=env, stdout=stdout, stderr=stderr, code=code
    )


class _Forker:
    """The process that forks those of one service. It ends with this one, and its children with it."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = (sys.executable, str(_FORKER), str(theirs.fileno()), service, _IMPORTED[service])
            self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
        self._forked: concurrent.futures.Future[int] = concurrent.futures.Future()
        self._ends: dict[int, concurrent.futures.Future[int]] = {}
        self._one_at_a_time = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def fork(
        self, code: str | None, arguments: Sequence[str], env: Mapping[str, str], stdout: int, stderr: int
    ) -> ForkedProcess:
        request = msgspec.json.encode({"code": code, "arguments": arguments, "env": env})
        with self._one_at_a_time:
            self._forked = concurrent.futures.Future()
            socket.send_fds(self._socket, [len(request).to_bytes(4, "big")], [stdout, stderr])
            self._socket.sendall(request)
            pid = self._forked.result(_FORK_SECONDS)
            return ForkedProcess(pid, self._ends[pid])

    def _read(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                what, pid, *status = line.split()
                if what == b"forked":
                    self._ends[int(pid)] = concurrent.futures.Future()
                    self._forked.set_result(int(pid))
                else:
                    self._ends[int(pid)].set_result(os.waitstatus_to_exitcode(int(status[0])))


_importing = threading.Lock()


def stop_forking(service: str) -> int:
    """Stop the process that forks those of a service, as a slow import would; its id, for SIGCONT."""
    forker = _forker(service)._process.pid
    os.kill(forker, signal.SIGSTOP)
    return forker


@functools.cache
def _forker(service: str) -> _Forker:
    return _Forker(service)
