"""The processes next to what is measured, and what processes use: CPU and memory, with their children."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import msgspec
import psutil

from ops.process import wrapped

ROOT = Path(__file__).parents[1]
_START_SECONDS = 30.0


class Started(msgspec.Struct, frozen=True):
    pid: int
    url: str


@contextlib.asynccontextmanager
async def serving(*command: str) -> AsyncIterator[Started]:
    """A process that prints its port when it is ready; ended with the block. Raises TimeoutError."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    ended_with_this = wrapped(command, signal.SIGTERM)
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


@contextlib.asynccontextmanager
async def lean_upstream() -> AsyncIterator[Started]:
    async with serving(sys.executable, "-m", "bench.upstream") as started:
        yield started


Pids = Mapping[str, int]


def cpu_seconds(pids: Pids) -> dict[str, float]:
    """Used so far by each and its children, those that have ended too."""
    return {name: _sum(_cpu, family) for name, family in _families(pids).items()}


def memory(pids: Pids) -> dict[str, float]:
    """MiB of each and its children, shared pages divided among those that share them (PSS)."""
    return {name: _sum(_pss, family) / 2**20 for name, family in _families(pids).items()}


def since(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What was used between two readings; by one that was started again meanwhile, since its start."""
    return {name: value - min(value, before.get(name, 0.0)) for name, value in after.items()}


def _families(pids: Pids) -> dict[str, list[psutil.Process]]:
    """Each named process with its descendants, but for those that have a name themselves, or are theirs."""
    named = set(pids.values())

    def family(pid: int) -> list[psutil.Process]:
        try:
            process = psutil.Process(pid)
            children = [child.pid for child in process.children() if child.pid not in named]
        except psutil.NoSuchProcess:
            return []  # what it used is its parent's now
        return [process, *(member for child in children for member in family(child))]

    return {name: family(pid) for name, pid in pids.items()}


def _sum(measure: Callable[[psutil.Process], float], family: list[psutil.Process]) -> float:
    total = 0.0
    for process in family:
        try:
            total += measure(process)
        except psutil.NoSuchProcess:
            continue
    return total


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _pss(process: psutil.Process) -> float:
    return float(process.memory_full_info().pss)
