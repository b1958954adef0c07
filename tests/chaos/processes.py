"""The stack's processes, kept running: one that ends is started again at once, unless it is held down."""

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import psutil

from agentchat.ops.errors import StackError
from agentchat.ops.probes import NOT_READY, HttpProbe, UnreadyError, wait_ready
from agentchat.ops.process import Process, spawn
from tests.chaos.records import Clock

_AGAIN_SECONDS = 0.1
_UNHEALTHY_ANSWERS = 3


async def _wait_unhealthy(probe: HttpProbe) -> None:
    """Return after three answers in a row that it is unhealthy."""
    unhealthy = 0
    while unhealthy < _UNHEALTHY_ANSWERS:
        await asyncio.sleep(1.0)
        try:
            await probe.check()
            unhealthy = 0
        except UnreadyError:
            unhealthy += 1
        except NOT_READY:
            unhealthy = 0


class Kept:
    """One process. `prepare` of its description runs before each start."""

    def __init__(self, process: Process, clock: Clock) -> None:
        self.process = process
        self.ready = asyncio.Event()
        self.became_ready: list[float] = []
        self.starts = 0
        self.codes: list[int] = []
        """Exit codes, of each time that it ended."""
        self.pid: int | None = None
        self._clock = clock
        self._may_start = asyncio.Event()
        self._may_start.set()
        self._wipes: Path | None = None

    async def run(self) -> None:
        """Start it, and again whenever it ends. A job runs once."""
        while True:
            await self._may_start.wait()
            if self._wipes is not None:
                shutil.rmtree(self._wipes, ignore_errors=True)
                self._wipes = None
            await self._prepare()
            child = await spawn(self.process)
            self.pid, self.starts = child.pid, self.starts + 1
            watching = asyncio.create_task(self._watch())
            code = await child.wait()
            self.pid = None
            self.codes.append(code)
            watching.cancel()
            if self.process.probe is None:
                assert code == 0, f"{self.process.name} ended with {code}: see {self.process.log}"
                self.ready.set()
                return
            self.ready.clear()
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _prepare(self) -> None:
        """As often as it takes, once it has run: its disk may be full."""
        while True:
            try:
                return await self.process.prepare()
            except (OSError, StackError):
                if not self.starts:
                    raise
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _watch(self) -> None:
        """A NATS that reports itself unhealthy is stopped, as a liveness probe does it in production."""
        if self.process.probe is not None:
            await wait_ready(self.process.probe)
            self.became_ready.append(self._clock.now())
            self.ready.set()
        if self.process.name.startswith("nats") and isinstance(self.process.probe, HttpProbe):
            await _wait_unhealthy(self.process.probe)
            self.signal(signal.Signals(self.process.stop_signal))

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal, to its children too where it ends or stops it; whether there was a process."""
        if self.pid is None:
            return False
        try:
            found = psutil.Process(self.pid)
            family = [found, *found.children(recursive=True)]
        except psutil.NoSuchProcess:
            return False
        alone = number in (signal.SIGTERM, signal.SIGINT)
        for each in family[:1] if alone else family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.pid, number)
        if number == signal.SIGKILL:
            self.ready.clear()
        return True

    def hold(self, *, wipe: Path | None = None) -> None:
        """When it has ended it is not started again before `release`; then with an empty folder `wipe`."""
        self._wipes = wipe
        self._may_start.clear()

    def release(self) -> None:
        self._may_start.set()

    async def wait_ready_again(self, before: int, seconds: float) -> float:
        """When it was ready once more than `before`. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while len(self.became_ready) <= before:  # noqa: ASYNC110 - another fault may come between
                await asyncio.sleep(0.02)
        return self.became_ready[before]


class Kin:
    """All processes of a run; as a context manager it stops them at its end."""

    def __init__(self, processes: Sequence[Process], clock: Clock) -> None:
        self.kept = {process.name: Kept(process, clock) for process in processes}
        self._keepers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Kin":
        self._keepers = [asyncio.create_task(self._start(each)) for each in self.kept.values()]
        return self

    async def _start(self, each: Kept) -> None:
        for name in each.process.after:
            await self.kept[name].ready.wait()
        await each.run()

    async def wait_ready(self, seconds: float) -> None:
        """Until all are. Raises TimeoutError, or what ended a keeper."""
        async with asyncio.timeout(seconds):
            while not all(each.ready.is_set() for each in self.kept.values()):
                await asyncio.sleep(0.05)
                for keeper in self._keepers:
                    if keeper.done():
                        keeper.result()

    async def __aexit__(self, *_: object) -> None:
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        running = sorted(self.kept.values(), key=lambda each: each.process.stop_rank)
        for _, group in itertools.groupby(running, key=lambda each: each.process.stop_rank):
            await asyncio.gather(*map(_end, group))


async def _end(each: Kept) -> None:
    if each.pid is None or not psutil.pid_exists(each.pid):
        return
    each.signal(signal.SIGCONT)
    each.signal(signal.Signals(each.process.stop_signal))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(each.process.stop_seconds):
            while _runs(each.pid):  # noqa: ASYNC110 - its keeper, who would be told, was cancelled
                await asyncio.sleep(0.02)
    each.signal(signal.SIGKILL)


def _runs(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False
