"""Keeps a stack's processes running: starts them in their order, restarts dead ones, stops all."""

import asyncio
import contextlib
import itertools
import os
import signal
import time
from collections.abc import Sequence
from types import TracebackType

import msgspec

from ops import record
from ops.errors import StackError, StartError
from ops.folder import RunFolder
from ops.probes import reason_unready, wait_ready
from ops.process import Child, Process, Spawn, spawn
from ops.stack_report import Report, tail

_STARTS = 3
"""How often a process may die before the stack is up, until the start is given up."""
_WRONG_SETTINGS = 2
_NOT_STARTED = 126
_STEADY_SECONDS = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0


class Running(msgspec.Struct):
    """A process that has been started and not yet been seen to end."""

    process: Process
    child: Child
    started_at: float


class Supervisor:
    """As a context manager: leaving it stops everything, also when entering did not get far.

    It must be used under the folder's lock.
    """

    def __init__(
        self, folder: RunFolder, processes: Sequence[Process], report: Report, spawn: Spawn = spawn
    ) -> None:
        self._spawn = spawn
        self._folder = folder
        self._processes = tuple(processes)
        self._report = report
        self._ready = {process.name: asyncio.Event() for process in processes}
        self._running: dict[str, Running] = {}
        self._restarts: dict[str, int] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._up = False
        self._kill = asyncio.Event()

    async def __aenter__(self) -> "Supervisor":
        self._keepers = [asyncio.create_task(self._keep(process)) for process in self._processes]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        running = sorted(self._running.values(), key=lambda one: one.process.stop_rank)
        for _, group in itertools.groupby(running, key=lambda one: one.process.stop_rank):
            await asyncio.gather(*map(self._end, group))
        self._running.clear()
        self._folder.processes.unlink(missing_ok=True)

    async def wait_up(self, seconds: float) -> None:
        """Return when every process is ready. Raises StackError if one does not get there in time."""
        ready, failed = asyncio.create_task(self._all_ready()), asyncio.create_task(self.wait_failed())
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait({ready, failed}, return_when=asyncio.FIRST_COMPLETED)
                if failed.done():
                    failed.result()
        except TimeoutError:
            raise StartError(await self._why_not_up(seconds)) from None
        finally:
            for waiting in (ready, failed):
                waiting.cancel()
            await asyncio.gather(ready, failed, return_exceptions=True)
        self._up = True

    async def _all_ready(self) -> None:
        for event in self._ready.values():
            await event.wait()

    async def wait_failed(self) -> None:
        """Return never; raise the StackError of a process that cannot be kept running."""
        await asyncio.gather(*map(asyncio.shield, self._keepers))
        await asyncio.Event().wait()

    def kill_services(self) -> None:
        """Kill services instead of waiting for their end; the servers still have their time to end."""
        if not self._kill.is_set():
            self._kill.set()
            self._report.note("killing the services; the servers still end in order")

    async def _keep(self, process: Process) -> None:
        """Start one process, and start it again whenever it ends. A job's keeper ends with it."""
        for name in process.after:
            await self._ready[name].wait()
        failures = 0
        for restarts in itertools.count():
            began = time.monotonic()
            self._restarts[process.name] = restarts
            code, log_offset = await self._run(process, began)
            if process.probe is None and code == 0:
                return
            failures = 1 if time.monotonic() - began >= _STEADY_SECONDS else failures + 1
            self._give_up_on(process, code, failures, log_offset)
            pause = min(_FIRST_PAUSE * 4.0 ** (failures - 1), _LONGEST_PAUSE)
            self._report.died(process.name, _describe_exit(code), process.log, log_offset, pause)
            await asyncio.sleep(pause)

    async def _run(self, process: Process, began: float) -> tuple[int, int]:
        """Run it from its start to its end; return its exit code and where in the log it began."""
        log_offset = process.log.stat().st_size if process.log.exists() else 0
        try:
            await process.prepare()
            child = await self._spawn(process)
        except (OSError, StackError) as error:
            if isinstance(error, StackError) and not self._up:
                raise
            self._report.note(f"{process.name} cannot be started: {error}")  # the disk may be full
            return _NOT_STARTED, log_offset
        self._running[process.name] = Running(process, child, time.time())
        self._write_record()
        ending = asyncio.create_task(child.wait())
        try:
            if process.probe is not None:
                watching = asyncio.create_task(wait_ready(process.probe))
                await asyncio.wait({ending, watching}, return_when=asyncio.FIRST_COMPLETED)
                watching.cancel()
                if not ending.done():
                    self._note_ready(process, began)
            code = await ending
        finally:
            ending.cancel()
        if process.probe is None and code == 0:
            self._note_ready(process, began)
        del self._running[process.name]
        self._write_record()
        return code, log_offset

    def _note_ready(self, process: Process, began: float) -> None:
        if not self._ready[process.name].is_set():
            self._report.ready(process.name, time.monotonic() - began)
        elif process.probe is not None:
            self._report.note(f"{process.name} is ready again")
        self._ready[process.name].set()

    def _give_up_on(self, process: Process, code: int, failures: int, log_offset: int) -> None:
        """Raise StartError while the stack starts and a process cannot; later each is tried for ever."""
        if self._up or (process.probe is not None and code != _WRONG_SETTINGS and failures < _STARTS):
            return
        lines = tail(process.log, log_offset)
        if len(lines) > 1:
            self._report.died(process.name, _describe_exit(code), process.log, log_offset, None)
        last = lines[-1] if lines else _describe_exit(code)
        raise StartError(f"{process.name} does not start: {last} (its log: {process.log})")

    async def _why_not_up(self, seconds: float) -> str:
        for process in self._processes:
            if not self._ready[process.name].is_set() and process.name in self._running:
                reason = await reason_unready(process.probe) if process.probe else None
                return (
                    f"{process.name} is not ready after {seconds:g} s: {reason or 'it has not ended'} "
                    f"(its log: {process.log})"
                )
        return f"not up after {seconds:g} s"

    async def _end(self, running: Running) -> None:
        """Ask it to stop and give it its time; then kill it."""
        child, process = running.child, running.process
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(process.stop_signal)
        ending = asyncio.create_task(child.wait())
        waiting = {ending} if process.is_server else {ending, asyncio.create_task(self._kill.wait())}
        await asyncio.wait(waiting, timeout=process.stop_seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting - {ending}:
            task.cancel()
        if not ending.done():
            if process.is_server or not self._kill.is_set():
                self._report.note(f"{process.name} has not ended in {process.stop_seconds:g} s; it is killed")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        await ending

    def _write_record(self) -> None:
        entries = tuple(self._entry(process) for process in self._processes)
        with contextlib.suppress(OSError):  # a full disk is no reason to stop
            record.write(self._folder.processes, record.Record(os.getpid(), entries))

    def _entry(self, process: Process) -> record.Entry:
        running = self._running.get(process.name)
        return record.Entry(
            name=process.name,
            pid=running.child.pid if running else None,
            started_at=running.started_at if running else time.time(),
            restarts=self._restarts.get(process.name, 0),
            log=str(process.log),
            probe=process.probe,
            health_url=process.health_url,
            metrics_url=process.metrics_url,
            version=process.version,
        )


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
