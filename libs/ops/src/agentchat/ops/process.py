"""One process of the stack as data, how one is started, and how a command is run to its end."""

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
    """A process: what to run, when to start it, how to ask whether it is ready, how to stop it.

    One without a probe is a job: it is ready once it has ended with code 0, and runs once.
    """

    name: str
    argv: tuple[str, ...]
    env: dict[str, str]
    log: Path
    probe: Probe | None
    after: tuple[str, ...] = ()
    """Names of the processes that must be ready before it starts."""
    prepare: Callable[[], Awaitable[None]] = prepare_nothing
    """Run before every start. May raise StackError, which ends a stack that is starting."""
    metrics_url: str | None = None
    """Where it shows its metrics as Prometheus text."""
    run_as: tuple[str, ...] = ()
    """Options of setpriv(1) for the user to become, if it is not that of the stack."""
    version: str = ""
    """The version of its program."""
    stop_rank: int
    """Lower ranks stop earlier; those of one rank side by side."""
    stop_signal: int = signal.SIGTERM
    stop_seconds: float = STOP_SECONDS
    """How long it may take to end in order before it is killed."""
    is_server: bool = False
    """It holds data: it has this time also when the others are killed at once."""

    def __repr__(self) -> str:
        """Leave out the environment, which holds secrets."""
        return f"Process(name={self.name!r}, argv={self.argv!r})"


class Child(Protocol):
    """A process that was started, the leader of its session."""

    @property
    def pid(self) -> int: ...

    def send_signal(self, signal: int) -> None: ...

    async def wait(self) -> int:
        """Return its exit code, once it has ended."""


Spawn: TypeAlias = Callable[[Process], Awaitable[Child]]


async def spawn(process: Process) -> Child:
    """Start it in a session of its own, so that a terminal's Ctrl-C does not reach it.

    It appends to its log, and gets its own stop signal when this process dies. Call it from the main thread:
    Linux takes the end of the thread that started a process for the end of its parent.
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
    """Return the command line that runs `argv`, and ends it when the process that starts it dies.

    Without setpriv, which util-linux has, it outlives that process.
    """
    if shutil.which("setpriv") is None:
        return argv
    name = signal.Signals(death_signal).name.removeprefix("SIG")
    return ("setpriv", f"--pdeathsig={name}", *run_as, "--", *argv)


class Output(msgspec.Struct, frozen=True):
    """How a command ended, and what it wrote to stdout and stderr together."""

    code: int
    text: str

    @property
    def last_line(self) -> str:
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.code}"


async def run_command(
    argv: tuple[str, ...],
    *,
    env: dict[str, str],
    run_as: tuple[str, ...] = (),
    stdin: str = "",
) -> Output:
    """Run a command to its end, for a minute at most. It is killed when this process dies or is cancelled.

    Raises:
        StartError: It has not ended.
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
        raise StartError(f"{argv[0]} has not ended after {_COMMAND_SECONDS:.0f} s") from None
    finally:
        if running.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                running.kill()
            await running.wait()
    return Output(running.returncode or 0, output.decode(errors="replace"))
