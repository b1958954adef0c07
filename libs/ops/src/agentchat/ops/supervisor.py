"""Supervise a stack's processes: start them in order, restart dead ones, stop all."""

import asyncio
import contextlib
import itertools
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agentchat.ops import process_record
from agentchat.ops.errors import StackError, StartError
from agentchat.ops.probes import Probe, find_unready_reason, wait_ready
from agentchat.ops.process import Child, Process, Spawn, spawn
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.stack_report import Report, read_last_lines
from agentchat.runtime.task_cancellation import wait_first

_STARTS = 3
"""Number of failures of a process, before the stack is up, after which the start is given up."""
_WRONG_SETTINGS = 2
_NOT_STARTED = 126
_STEADY_SECONDS = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0


class _Kept:
    """A supervised process. `child` is None while it is down, `entry` is what the record says of it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.ready = asyncio.Event()
        self.child: Child | None = None
        self.entry = process_record.Entry(
            name=process.name,
            started_at=time.time(),
            log=str(process.log),
            probe=process.probe,
            metrics_url=process.metrics_url,
            version=process.version,
        )


class Supervisor:
    """A context manager that runs processes and stops them all when it is left.

    Hold the folder's lock while using it.
    """

    def __init__(
        self, folder: RunFolder, processes: Sequence[Process], report: Report, spawn: Spawn = spawn
    ) -> None:
        self._spawn = spawn
        self._folder = folder
        self._report = report
        self._kept = {process.name: _Kept(process) for process in processes}
        self._keepers: list[asyncio.Task[None]] = []
        self._up = False
        self._kill = asyncio.Event()

    async def __aenter__(self) -> "Supervisor":
        self._keepers = [asyncio.create_task(self._keep(each)) for each in self._kept.values()]
        return self

    async def __aexit__(self, *_: object) -> None:
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        ordered = sorted(self._kept.values(), key=lambda each: each.process.stop_rank)
        for _rank, group in itertools.groupby(ordered, key=lambda each: each.process.stop_rank):
            await asyncio.gather(*(self._end(each.process, each.child) for each in group if each.child))
        self._folder.processes.unlink(missing_ok=True)

    async def wait_up(self, seconds: float) -> None:
        """Wait until every process is ready. Raises StackError if one is not ready in time."""
        try:
            async with asyncio.timeout(seconds):
                all_ready = asyncio.gather(*(each.ready.wait() for each in self._kept.values()))
                await wait_first(all_ready, self.wait_failed())
        except TimeoutError:
            raise StartError(await self._describe_unready(seconds)) from None
        self._up = True

    async def wait_failed(self) -> None:
        """Wait until a process cannot be kept running, and raise its StackError."""
        await asyncio.gather(*map(asyncio.shield, self._keepers))
        await asyncio.Event().wait()

    def kill_services(self) -> None:
        """Kill the services instead of waiting for their end; servers still stop in order."""
        if not self._kill.is_set():
            self._kill.set()
            self._report.note("killing the services; the servers still stop in order")

    async def _keep(self, kept: _Kept) -> None:
        """Start a process, and restart it whenever it ends. A job runs once."""
        process = kept.process
        for name in process.after:
            await self._kept[name].ready.wait()
        failures = 0
        while True:
            began = time.monotonic()
            log_offset = process.log.stat().st_size if process.log.exists() else 0
            out_of_memory = _count_out_of_memory_kills()
            code = await self._run(kept, began)
            if process.probe is None and code == 0:
                return
            failures = 1 if time.monotonic() - began >= _STEADY_SECONDS else failures + 1
            reason = _describe_exit(code)
            if code == -signal.SIGKILL and _count_out_of_memory_kills() > out_of_memory:
                reason += " (the kernel killed a process for lack of memory meanwhile)"
            self._record(
                kept, ended_at=time.time(), end_reason=_add_last_line(reason, code, process, log_offset)
            )
            is_job_or_misconfigured = process.probe is None or code == _WRONG_SETTINGS
            if not self._up and (is_job_or_misconfigured or failures >= _STARTS):
                self._give_up(process, reason, log_offset)
            pause = min(_FIRST_PAUSE * 4.0 ** (failures - 1), _LONGEST_PAUSE)
            self._report.report_end(process.name, reason, process.log, log_offset, pause)
            await asyncio.sleep(pause)
            kept.entry = replace(kept.entry, restarts=kept.entry.restarts + 1)

    async def _run(self, kept: _Kept, began: float) -> int:
        """Run a process to its end; return its exit code."""
        process = kept.process
        try:
            await process.prepare()
            child = kept.child = await self._spawn(process)
        except (OSError, StackError) as error:
            if isinstance(error, StackError) and not self._up:
                raise
            self._report.note(f"{process.name} cannot be started: {error}")  # the disk may be full
            return _NOT_STARTED
        self._record(kept, pid=child.pid, started_at=time.time())
        if process.probe is not None:
            await wait_first(child.wait(), self._wait_ready(kept, process.probe, began))
        code = await child.wait()
        if process.probe is None and code == 0:
            self._report_ready(kept, began)
        kept.child = None
        self._record(kept, pid=None)
        return code

    async def _wait_ready(self, kept: _Kept, probe: Probe, began: float) -> None:
        await wait_ready(probe)
        self._report_ready(kept, began)

    def _report_ready(self, kept: _Kept, began: float) -> None:
        if kept.ready.is_set():
            self._report.note(f"{kept.process.name} is ready again")
        else:
            self._report.report_ready(kept.process.name, time.monotonic() - began)
        kept.ready.set()

    def _give_up(self, process: Process, reason: str, log_offset: int) -> None:
        """Raise StartError with the last line of the process' log."""
        lines = read_last_lines(process.log, log_offset)
        if len(lines) > 1:
            self._report.report_end(process.name, reason, process.log, log_offset, None)
        last = lines[-1] if lines else reason
        raise StartError(f"{process.name} does not start: {last} (log: {process.log})")

    async def _describe_unready(self, seconds: float) -> str:
        for kept in self._kept.values():
            if kept.child and not kept.ready.is_set():
                process = kept.process
                reason = await find_unready_reason(process.probe) if process.probe else None
                return (
                    f"{process.name} is not ready after {seconds:g} s: {reason or 'it has not ended'} "
                    f"(log: {process.log})"
                )
        return f"not up after {seconds:g} s"

    async def _end(self, process: Process, child: Child) -> None:
        """Ask a process to stop, wait for its stop time, then kill it."""
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(process.stop_signal)
        ended, killing = asyncio.create_task(child.wait()), asyncio.create_task(self._kill.wait())
        waiting = {ended} if process.is_server else {ended, killing}
        await asyncio.wait(waiting, timeout=process.stop_seconds, return_when=asyncio.FIRST_COMPLETED)
        killing.cancel()
        if not ended.done():
            if process.is_server or not self._kill.is_set():
                self._report.note(
                    f"{process.name} did not stop within {process.stop_seconds:g} s; killing it"
                )
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        await ended

    def _record(self, kept: _Kept, **changes: Any) -> None:
        """Change what the record says of a process, and write it."""
        kept.entry = replace(kept.entry, **changes)
        entries = tuple(each.entry for each in self._kept.values())
        with contextlib.suppress(OSError):  # a full disk is no reason to stop
            process_record.write(self._folder.processes, process_record.Record(os.getpid(), entries))


def _add_last_line(reason: str, code: int, process: Process, log_offset: int) -> str:
    """Return the reason with the last line of the log, if the process ended by itself with an error."""
    lines = read_last_lines(process.log, log_offset) if code > 0 else []
    return f"{reason}: {lines[-1]}" if lines else reason


def _count_out_of_memory_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory; 0 on a system without /proc."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/vmstat").read_text().partition("oom_kill ")[2].split()[0])
    return 0


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
