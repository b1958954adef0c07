"""Run untrusted work in a process of its own, whose CPU time and memory the kernel limits.

Nothing in Python interrupts a regular expression or a parser. The child runs `serve_requests`, the parent
keeps a `LimitedProcess`. They exchange bytes, preceded by their number; a request also has its CPU time.
"""

import asyncio
import contextlib
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable

_REQUEST = struct.Struct(">Id")
_ANSWER = struct.Struct(">I")
_END_SECONDS = 1.0
_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL")


class ProcessEnded(Exception):  # noqa: N818 - reads as the condition it is
    """The process has ended without an answer; `timed_out` says that the request took too much time."""

    def __init__(self, *, timed_out: bool) -> None:
        super().__init__("it took too much time" if timed_out else "it has ended")
        self.timed_out = timed_out


class LimitedProcess:
    """A process of a module, started when it is first needed, and again after it has ended.

    One request at a time. Close it when done.
    """

    def __init__(self, module: str, *, patience_seconds: float) -> None:
        """Name the module. `patience_seconds` is longer than the CPU time takes on a busy machine."""
        self._module = module
        self._patience_seconds = patience_seconds
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def ask(self, request: bytes, cpu_seconds: float) -> bytes:
        """Return the answer. Raises ProcessEnded.

        A request that is cancelled or late ends the process, or the next one would read its answer.
        """
        async with self._turn:
            try:
                async with asyncio.timeout(self._patience_seconds):
                    return await self._exchange(request, cpu_seconds)
            except (asyncio.IncompleteReadError, ConnectionError):
                raise ProcessEnded(timed_out=await self._wait_for_exit() == -signal.SIGVTALRM) from None
            except BaseException as error:
                await self.aclose()
                if isinstance(error, TimeoutError):
                    raise ProcessEnded(timed_out=True) from None
                raise

    async def aclose(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _exchange(self, request: bytes, cpu_seconds: float) -> bytes:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", self._module),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(_REQUEST.pack(len(request), cpu_seconds) + request)
        await stdin.drain()
        (size,) = _ANSWER.unpack(await stdout.readexactly(_ANSWER.size))
        return await stdout.readexactly(size)

    async def _wait_for_exit(self) -> int | None:
        """Return the exit status, or minus the signal, of a process that has closed its pipes."""
        process = self._process
        assert process is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()
        await self.aclose()
        return process.returncode


def limit_resources(memory_bytes: int) -> None:
    """Limit this process's memory, and forbid it to write files. Call it before large imports."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the parent
    bounds = {resource.RLIMIT_AS: memory_bytes, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    for kind, bound in bounds.items():
        with contextlib.suppress(ValueError, OSError):  # some systems lack some of them
            resource.setrlimit(kind, (bound, bound))


def serve_requests(answer: Callable[[bytes], bytes]) -> None:
    """Answer requests until the parent closes stdin.

    The kernel ends the process by SIGVTALRM when a request takes more CPU time than it may.
    """
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while len(head := stdin.read(_REQUEST.size)) == _REQUEST.size:
        size, cpu_seconds = _REQUEST.unpack(head)
        request = stdin.read(size)
        signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
        answered = answer(request)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        stdout.write(_ANSWER.pack(len(answered)) + answered)
        stdout.flush()
