"""Start the processes that a measurement needs, and read what processes use, with their children."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import msgspec
import psutil

from agentchat.ops.process import wrap_command

ROOT = Path(__file__).parents[1]
Pids = Mapping[str, int]
_START_SECONDS = 30.0


class Started(msgspec.Struct, frozen=True):
    """A started process and its address."""

    pid: int
    url: str


@contextlib.asynccontextmanager
async def start_serving(*command: str) -> AsyncIterator[Started]:
    """Run a process that prints its port when it is ready, while the block runs. Raises TimeoutError."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    ended_with_this = wrap_command(command, signal.SIGTERM)
    process = await asyncio.create_subprocess_exec(*ended_with_this, cwd=ROOT, stdout=pipe, stdin=nothing)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_START_SECONDS):
            port = int(await process.stdout.readline())
        yield Started(process.pid, f"http://127.0.0.1:{port}")
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def start_upstream() -> contextlib.AbstractAsyncContextManager[Started]:
    """Run `bench.upstream`."""
    return start_serving(sys.executable, "-m", "bench.upstream")


def measure_cpu_seconds(pids: Pids) -> dict[str, float]:
    """Read the CPU time of each process and its children, those that have ended too."""
    return {name: _sum(read_cpu, family) for name, family in group_families(pids).items()}


def measure_memory(pids: Pids) -> dict[str, float]:
    """Read MiB of each process and its children, shared pages divided among those that share them (PSS)."""
    return {name: _sum(read_pss, family) / 2**20 for name, family in group_families(pids).items()}


def group_families(pids: Pids) -> dict[str, list[psutil.Process]]:
    """Find the descendants of each named process, without those that have a name themselves."""
    named = set(pids.values())

    def list_family(pid: int) -> list[psutil.Process]:
        try:
            process = psutil.Process(pid)
            children = [child.pid for child in process.children() if child.pid not in named]
        except psutil.NoSuchProcess:
            return []  # its parent has its CPU time now
        return [process, *(member for child in children for member in list_family(child))]

    return {name: list_family(pid) for name, pid in pids.items()}


def _sum(measure: Callable[[psutil.Process], float], family: list[psutil.Process]) -> float:
    total = 0.0
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += measure(process)
    return total


def read_cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def read_pss(process: psutil.Process) -> float:
    return float(process.memory_full_info().pss)
