"""Service processes for tests, each forked from a process that has imported the service before.

An import takes 0.3 to 1 s of CPU, and `make test` starts several hundred services. From the fork on
everything is as with `python -m`. Starting from nothing is tested in tests/stack/test_up.py.

There is one fork server a service, shared by all processes of a test run. The first that needs one starts it.
"""

import asyncio
import atexit
import concurrent.futures
import contextlib
import fcntl
import functools
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ops import process
from ops.process import Child, Process

_ALL = (
    *("runtime.logs", "runtime.telemetry", "runtime.worker", "uvloop"),
    *("opentelemetry.exporter.prometheus", "opentelemetry.sdk.metrics.view"),
)
_WEB = ("runtime.web", "uvicorn", "anyio.streams.stapled")
_IMPORTED = {
    "gateway": ("gateway.service", *_WEB, *_ALL),
    "orchestrator": (
        *("orchestrator.worker", "orchestrator.models.anthropic", "orchestrator.models.openai", "httpcore2"),
        *_ALL,
    ),
    "tool_runner": ("tool_runner.worker", "httpcore2", *_ALL),
    "projector": ("projector.worker", *_ALL),
    "notifier": ("notifier.worker", *_ALL),
    "judge": ("judge.worker", *_ALL),
    "console": ("console.service", *_WEB, *_ALL),
    "mcp_demo": ("mcp_demo.app", "litestar.plugins.pydantic", *_WEB, *_ALL),
    "model_demo": ("model_demo.app", *_WEB, *_ALL),
    "ops.prepare": (
        *("ops.prepare", "ops.seed", "ops.table_rights", "knowledge.embedding.configured", "runtime.logs"),
        *("conversations.migrations", "directory.migrations", "journal.migrations", "knowledge.migrations"),
        "webhooks.migrations",
    ),
}
"""By service: what its process imports, when it starts or at its first request."""
_FOLDER = "TESTS_FORK_SERVERS"
_FORK_SECONDS = 80.0
"""The first fork of a service waits for its import, next to whatever else runs."""
_ROOT = Path(__file__).resolve().parents[2]


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
        return await asyncio.shield(asyncio.wrap_future(self._ended))  # others may wait for it too

    def join(self, seconds: float) -> int:
        """The same for callers without an event loop. Raises TimeoutError."""
        return self._ended.result(seconds)


def own_fork_servers() -> None:
    """Let the fork servers of this process and of those it starts end with this process."""
    folder = tempfile.mkdtemp(prefix="agentchat-")
    os.environ[_FOLDER] = folder
    alive = Path(folder) / "alive"
    os.mkfifo(alive)
    os.open(alive, os.O_RDWR)  # the servers notice when it closes, which is at the end of this process
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


def start_servers() -> None:
    """Have a fork server for each service; it is outside whatever namespaces this process enters later."""
    for service in _IMPORTED:
        _server(service)


def start_collected(arguments: Sequence[str]) -> None:
    """Have a fork server "pytest" that has collected the tests of these arguments (`xdist_process`)."""
    os.environ["TESTS_COLLECTED"] = json.dumps(list(arguments))
    _start_server(Path(os.environ[_FOLDER]), "pytest", ("tests.support.collected",))


def start(
    service: str,
    *arguments: str,
    env: Mapping[str, str],
    stdout: int = 1,
    stderr: int = 2,
    code: str | None = None,
) -> ForkedProcess:
    """`python -m <service> <arguments>`, or `python -c <code> <arguments>`, with these descriptors."""
    request = _Request(service, arguments, env, code=code)
    return _server(service).fork(request, stdout, stderr)


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


async def spawn(process_: Process) -> Child:
    """As `ops.process.spawn`, with services forked. The parent's death signal is sent by the fork server."""
    argv = process_.argv
    service = next((each for each in argv[2:5] if each in _IMPORTED), None)
    if argv[:2] != (sys.executable, "-m") or service is None:
        return await process.spawn(process_)
    request = _Request(argv[2], argv[3:], process_.env, death_signal=process_.stop_signal)
    log = os.open(process_.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return await asyncio.to_thread(lambda: _server(service).fork(request, log, log))
    finally:
        os.close(log)


class _Request(msgspec.Struct, frozen=True):
    """What the fork server reads: a module, or code, to be run as the main program."""

    module: str
    arguments: Sequence[str]
    env: Mapping[str, str]
    code: str | None = None
    death_signal: int = signal.SIGKILL
    folder: str = msgspec.field(default_factory=os.getcwd)


class _Connection:
    """To the fork server of one service. The processes forked by it end when it closes."""

    def __init__(self, service: str) -> None:
        self._socket = _connected(service)
        self._forked: concurrent.futures.Future[int] = concurrent.futures.Future()
        self._ends: dict[int, concurrent.futures.Future[int]] = {}
        self._one_at_a_time = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def server_pid(self) -> int:
        credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])

    def fork(self, request: _Request, stdout: int, stderr: int) -> ForkedProcess:
        encoded = msgspec.json.encode(request)
        with self._one_at_a_time:
            self._forked = concurrent.futures.Future()
            socket.send_fds(self._socket, [len(encoded).to_bytes(4, "big")], [stdout, stderr])
            self._socket.sendall(encoded)
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
        if not self._forked.done():
            self._forked.set_exception(ChildProcessError("the fork server has ended"))


_connecting = threading.Lock()


def _server(service: str) -> _Connection:
    with _connecting:
        return _connection(service)


@functools.cache
def _connection(service: str) -> _Connection:
    return _Connection(service)


def _connected(service: str) -> socket.socket:
    if _FOLDER not in os.environ:
        own_fork_servers()
    folder = Path(os.environ[_FOLDER])
    with (folder / f"{service}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / f"{service}.sock").exists():
            _start_server(folder, service, _IMPORTED[service])
    made = socket.socket(socket.AF_UNIX)
    made.connect(str(folder / f"{service}.sock"))
    return made


def _start_server(folder: Path, service: str, modules: Sequence[str]) -> None:
    """Return when it listens; it goes on in the background."""
    command = (sys.executable, "-m", "tests.support.fork_server", str(folder), service)
    with (folder / f"{service}.log").open("wb") as log:
        subprocess.run((*command, *modules), cwd=_ROOT, stdout=log, stderr=log, check=True)


def stop_forking(service: str) -> int:
    """Stop the process that forks those of a service, as a slow import would; its id, for SIGCONT."""
    pid = _server(service).server_pid
    os.kill(pid, signal.SIGSTOP)
    return pid
