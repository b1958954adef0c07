"""What a Postgres that was killed leaves: server processes without a parent, and its lock file.

Postgres clears the lock file itself unless its process id has been given to another process since. Only
whoever holds the run folder's lock may do this: then no other stack uses the data.
"""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

_END_SECONDS = 5.0


async def end_leftovers(data: Path) -> None:
    """End every server process on the data folder, then remove the lock file that they left."""
    lock_file = data / "postmaster.pid"
    if not lock_file.exists():
        return
    # The postmaster's children end by themselves once it is gone.
    await _end(data, signal.SIGQUIT)
    await _end(data, signal.SIGKILL)
    lock_file.unlink(missing_ok=True)


async def _end(data: Path, number: signal.Signals) -> None:
    for pid in _server_processes(data):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            while _server_processes(data):  # noqa: ASYNC110 - they are not our children
                await asyncio.sleep(0.02)


def _server_processes(data: Path) -> list[int]:
    """Every process of a Postgres server works in its data folder."""
    import psutil

    folder = os.path.realpath(data)
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.cwd() == folder and process.pid != os.getpid():
                found.append(process.pid)
    return found
