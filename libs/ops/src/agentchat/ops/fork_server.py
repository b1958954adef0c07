"""Start services as forks of one process that has imported their code.

Seven services import much the same. As forks they share it: an idle stack takes 180 MiB less, and a start
half of the CPU time. Only `agentchat up` uses it; containers run `python -m agentchat.gateway` and the like.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence

import msgspec

from agentchat.ops.fork_process import ForkReport, ForkRequest
from agentchat.ops.process import Child, Process, spawn, wrap_command

PRELOADED = (
    "agentchat.gateway.service",
    "agentchat.console.service",
    "agentchat.projector.worker",
    "agentchat.tool_runner.worker",
    "agentchat.orchestrator.worker",
    "agentchat.orchestrator.models.anthropic.client",
    "agentchat.mcp_demo.app",
    "agentchat.model_demo.app:build",
    "agentchat.runtime.tracing",
    "agentchat.runtime.worker",
    "agentchat.directory.secret_encryption:load_ciphers",
    "agentchat.net_guard.guarded_session:get_tls_context",
    "anyio._backends._asyncio",
    "encodings.idna",
    "httpcore2",
    "litestar.plugins.attrs",
    "litestar.plugins.pydantic",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.http.h11_impl",
    "uvloop",
)
"""Parts that forks share: modules to import, and functions whose call makes Litestar and OpenSSL load more.

This is done before the first fork. What fails is left to the service that needs it, which logs it.
"""

_INHERITED = (
    *("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TZ"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""The server's environment, which stays in the memory of each fork: no secrets."""


class ForkServer:
    """A context manager for the process that others are forked from, which starts with the first of them."""

    def __init__(self, preloaded: Sequence[str] = PRELOADED) -> None:
        self._preloaded = preloaded
        self._starting = asyncio.Lock()
        self._server: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._asked: deque[asyncio.Future[Child]] = deque()
        self._codes: dict[int, asyncio.Future[int]] = {}

    async def __aenter__(self) -> "ForkServer":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.kill()
        if self._reading is not None:
            await self._reading

    async def spawn(self, process: Process) -> Child:
        """Start a process: as a fork if it runs a module of ours (see `process.spawn`).

        Raises:
            OSError: The server has ended; the next call starts another one.
        """
        if not process.is_module:
            return await spawn(process)
        requests = (await self._ensure_server()).stdin
        assert requests is not None, "it is a pipe"
        started: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        self._asked.append(started)
        request = ForkRequest(process.argv, process.env, str(process.log))
        requests.write(msgspec.json.encode(request) + b"\n")
        return await started

    async def _ensure_server(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._server is None:
                self._server = await asyncio.create_subprocess_exec(
                    *wrap_command(
                        (sys.executable, "-m", "agentchat.ops.fork_process", *self._preloaded), signal.SIGKILL
                    ),
                    env={name: os.environ[name] for name in _INHERITED if name in os.environ},
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    start_new_session=True,
                )
                self._reading = asyncio.create_task(self._read(self._server))
            return self._server

    async def _read(self, server: asyncio.subprocess.Process) -> None:
        """Read the server's reports until it ends."""
        assert server.stdout is not None, "it is a pipe"
        async for line in server.stdout:
            report = msgspec.json.decode(line, type=ForkReport)
            if report.code is not None:
                self._codes.pop(report.pid).set_result(report.code)
                continue
            code = self._codes[report.pid] = asyncio.get_running_loop().create_future()
            started, fork = self._asked.popleft(), _Fork(report.pid, code)
            if not started.cancelled():
                started.set_result(fork)
                continue
            with contextlib.suppress(ProcessLookupError):
                fork.send_signal(signal.SIGKILL)
        await server.wait()
        self._server = None
        for each in self._asked:
            if not each.done():
                each.set_exception(OSError("the fork server has ended"))
        self._asked.clear()
        for code in self._codes.values():  # its forks get SIGTERM then
            code.set_result(-signal.SIGTERM)
        self._codes.clear()


class _Fork:
    def __init__(self, pid: int, code: asyncio.Future[int]) -> None:
        self._pid, self._code = pid, code

    @property
    def pid(self) -> int:
        return self._pid

    def send_signal(self, signal: int) -> None:
        if not self._code.done():
            os.kill(self._pid, signal)

    async def wait(self) -> int:
        return await asyncio.shield(self._code)
