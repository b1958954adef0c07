"""What runs in a run folder: a file that the supervisor keeps, for `agentchat status` and the next start."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import msgspec

from ops.errors import NotRunningError
from ops.folder import RunFolder, write_private
from ops.probes import Probe


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One process, as it was last started, in Unix seconds; `pid` is None while it is down.

    `health_url` is None where it has no HTTP, `metrics_url` where it has no metrics; `version` is that of its
    program.
    """

    name: str
    pid: int | None
    started_at: float
    restarts: int
    log: str
    probe: Probe | None = None
    health_url: str | None = None
    metrics_url: str | None = None
    version: str = ""


class Record(msgspec.Struct, frozen=True):
    """`pid` is the supervisor's."""

    pid: int
    processes: tuple[Entry, ...] = ()

    def entry(self, name: str) -> Entry | None:
        return next((entry for entry in self.processes if entry.name == name), None)


def write(path: Path, record: Record) -> None:
    write_private(path, msgspec.json.encode(record), durable=False)


def read(path: Path) -> Record | None:
    """None where there is none, or one that an older program has written."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def running(folder: RunFolder, elsewhere: str = "") -> Record:
    """What runs in the folder. Raises NotRunningError; `elsewhere` explains how to reach another system."""
    kept = read(folder.processes) if folder.in_use() else None
    if kept is None:
        raise NotRunningError(f"nothing runs in {folder.path}{elsewhere}")
    return kept


async def end_survivors(folder: RunFolder, seconds: float = 5.0) -> list[str]:
    """End processes that a killed stack has left in this folder; returns their names. Call it under the lock.

    A process is known by its id and by the folder's path in its command line, so that one that has got the
    same id since is left alone. One that has not ended after `seconds` is killed.
    """
    record = read(folder.processes)
    if record is None:
        return []
    left = {
        entry.name: process
        for entry in record.processes
        if entry.pid is not None and (process := _survivor(folder, entry.pid))
    }
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in left.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while any(map(_runs, left.values())):  # noqa: ASYNC110 - not our children
                    await asyncio.sleep(0.02)
    folder.processes.unlink(missing_ok=True)
    return sorted(left)


def _survivor(folder: RunFolder, pid: int) -> Any:
    """A psutil.Process, which also knows when its id is another process's; None where it is not ours."""
    import psutil

    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        if _runs(process) and any(str(folder.path) in argument for argument in process.cmdline()):
            return process
    return None


def _runs(process: Any) -> bool:
    """Not what has ended and only waits to be reaped."""
    import psutil

    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
