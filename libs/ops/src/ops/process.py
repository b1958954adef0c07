"""One process of the stack as data, how one is started, and how a command is run to its end."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from contracts.timings import STOP_SECONDS
from ops.errors import StartError
from ops.probes import HttpProbe, Probe

_LAUNCH = Path(__file__).with_name("launch_process.py")
_COMMAND_SECONDS = 60.0


async def nothing() -> None:
    """The `prepare` of a process that needs none."""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process: what to run, when to start it, how to ask whether it is ready, how to stop it.

    One without a probe is a job: it is ready once it has ended with code 0, and runs once.
    """

    name: str
    argv: tuple[str, ...]
    env: dict[str, str]
    log: Path
    probe: Probe | None
    health: Probe | None = None
    """A running process that fails this for a while (`probes.wait_unhealthy`) is restarted."""
    after: tuple[str, ...] = ()
    """Names of the processes that must be ready before it starts."""
    prepare: Callable[[], Awaitable[None]] = nothing
    """Run before every start. May raise StackError, which ends the stack."""
    metrics_url: str | None = None
    """Where it shows its metrics as Prometheus text."""
    user: tuple[int, int] | None = None
    """User and group id to become, where the stack runs as root and this process must not."""
    version: str = ""
    """Of its program."""
    stop_rank: int
    """Lower ranks stop earlier; those of one rank side by side."""
    stop_signal: int = signal.SIGTERM
    stop_seconds: float = STOP_SECONDS
    """What it has to end in order, before it is killed."""
    is_server: bool = False
    """It holds data: it has this time also where the others are killed at once."""

    @property
    def health_url(self) -> str | None:
        """The HTTP address of its readiness or health."""
        return next((each.url for each in (self.probe, self.health) if isinstance(each, HttpProbe)), None)

    def __repr__(self) -> str:
        """Without its environment, which holds secrets."""
        return f"Process(name={self.name!r}, argv={self.argv!r})"


class Child(Protocol):
    """A process that was started, the leader of its session."""

    @property
    def pid(self) -> int: ...

    def send_signal(self, signal: int) -> None: ...

    async def wait(self) -> int:
        """Its exit code, once it has ended."""


Spawn: TypeAlias = Callable[[Process], Awaitable[Child]]


async def spawn(process: Process) -> Child:
    """Start it in a session of its own, so that a terminal's Ctrl-C does not reach it.

    It appends to its log, and gets its own stop signal when this process dies. Call it from the main thread:
    Linux takes the end of the thread that started a process for the end of its parent.
    """
    log = os.open(process.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            *wrapped(process.argv, process.stop_signal, process.user),
            env=process.env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)


def wrapped(argv: tuple[str, ...], death_signal: int, user: tuple[int, int] | None = None) -> tuple[str, ...]:
    """The command line that runs `argv` as another user, where one is given, and ends it with its parent."""
    become = f"{user[0]}:{user[1]}" if user else "-"
    return (sys.executable, "-I", "-S", str(_LAUNCH), str(int(death_signal)), become, *argv)


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
    user: tuple[int, int] | None = None,
    stdin: str = "",
) -> Output:
    """Raises StartError after a minute. It is killed then, as when this process dies or is cancelled."""
    running = await asyncio.create_subprocess_exec(
        *wrapped(argv, signal.SIGKILL, user),
        env=env,
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
