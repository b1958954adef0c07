"""Describe and start one process of the stack, and run commands to their end."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from agentchat.contracts.timings import STOP_SECONDS
from agentchat.ops.errors import StartError
from agentchat.ops.probes import Probe

_COMMAND_SECONDS = 60.0


async def prepare_nothing() -> None:
    """Do nothing: the `prepare` of a process that needs none."""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process: its command, its prerequisites, its readiness probe, how to stop it.

    A process without a probe is a job: it runs once and is ready when it has ended with code 0.
    """

    name: str
    argv: tuple[str, ...]
    env: dict[str, str]
    log: Path
    probe: Probe | None
    is_module: bool = False
    """True if `argv` is `python -m MODULE ARGUMENT...` with a module of ours: `fork_server` can run it."""
    after: tuple[str, ...] = ()
    """Names of the processes that must be ready before it starts."""
    prepare: Callable[[], Awaitable[None]] = prepare_nothing
    """Called before every start. May raise StackError, which ends a stack that is starting."""
    metrics_url: str | None = None
    """Address of its metrics as Prometheus text."""
    run_as: tuple[str, ...] = ()
    """Options of setpriv(1) for the user to become, if it is not that of the stack."""
    version: str = ""
    """The version of its program."""
    stop_rank: int
    """Lower ranks stop earlier; processes of the same rank stop at the same time."""
    stop_signal: int = signal.SIGTERM
    stop_seconds: float = STOP_SECONDS
    """Time for an orderly end before it is killed."""
    is_server: bool = False
    """True if it holds data: then it gets `stop_seconds` even if services are killed at once."""

    def __repr__(self) -> str:
        """Leave out the environment, which holds secrets."""
        return f"Process(name={self.name!r}, argv={self.argv!r})"


class Child(Protocol):
    """A started process, the leader of its session."""

    @property
    def pid(self) -> int:
        """The process id."""

    def send_signal(self, signal: int) -> None:
        """Send a signal to the process."""

    async def wait(self) -> int:
        """Wait for its end and return its exit code."""


Spawn: TypeAlias = Callable[[Process], Awaitable[Child]]


async def spawn(process: Process) -> Child:
    """Start a process in its own session, so that a terminal's Ctrl-C does not reach it.

    It appends to its log, and receives its stop signal when this process dies. Call it from the main thread:
    for Linux, the parent's death is the end of the thread that started the process.
    """
    log = os.open(process.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            *wrap_command(process.argv, process.stop_signal, process.run_as),
            env=process.env,
            cwd="/" if process.run_as else None,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)


def wrap_command(argv: tuple[str, ...], death_signal: int, run_as: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return a command line that runs `argv` and ends it when its parent process dies.

    Without setpriv (util-linux), it outlives its parent.
    """
    if shutil.which("setpriv") is None:
        return argv
    name = signal.Signals(death_signal).name.removeprefix("SIG")
    return ("setpriv", f"--pdeathsig={name}", *run_as, "--", *argv)


class Output(msgspec.Struct, frozen=True):
    """Exit code and combined output of a command."""

    code: int
    text: str

    @property
    def last_line(self) -> str:
        """The last line of the output, or the exit code if there is none."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.code}"


async def run_command(
    argv: tuple[str, ...],
    *,
    env: dict[str, str],
    run_as: tuple[str, ...] = (),
    stdin: str = "",
) -> Output:
    """Run a command to its end, for a minute at most; kill it if this process dies or is cancelled.

    Raises:
        StartError: The command did not end in time.
    """
    running = await asyncio.create_subprocess_exec(
        *wrap_command(argv, signal.SIGKILL, run_as),
        env=env,
        cwd="/" if run_as else None,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_COMMAND_SECONDS):
            output, _ = await running.communicate(stdin.encode())
    except TimeoutError:
        raise StartError(f"{argv[0]} did not end within {_COMMAND_SECONDS:.0f} s") from None
    finally:
        if running.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                running.kill()
            await running.wait()
    return Output(running.returncode or 0, output.decode(errors="replace"))
