"""Virtual time, and event loops on it, one for each process.

One thread, one queue, no clock but `World.now`: the same plan gives the same history, byte for byte.
"""

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any

from tests.simulator.plan import AT_CALL, Fault, Plan

_QUICK, _SPREAD = 0.0003, 0.002
_MAX_CALLBACKS = 400_000


class Handle:
    """A callback that waits its turn; what asyncio asks of a handle."""

    __slots__ = ("args", "callback", "context", "dropped", "loop")

    def __init__(
        self, loop: "Loop | None", callback: Callable[..., object], args: tuple[Any, ...], context: Any
    ) -> None:
        self.loop = loop
        self.callback = callback
        self.args = args
        self.context = context
        self.dropped = False

    def cancel(self) -> None:
        self.dropped = True

    def cancelled(self) -> bool:
        return self.dropped


class Loop(asyncio.AbstractEventLoop):
    """The event loop of one process, from its start to its death."""

    def __init__(self, world: "World") -> None:
        self.alive = True
        self.closing = False
        self.standing = False
        self.tasks: list[asyncio.Task[Any]] = []
        self._world = world
        self._backlog: list[Handle] = []

    def time(self) -> float:
        return self._world.now

    def call_soon(  # type: ignore[override]  # a lighter handle, here and below
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        handle = Handle(self, callback, args, context)
        self._world.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        return self.call_at(self._world.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        handle = Handle(self, callback, args, context)
        self._world.push(when, handle)
        return handle

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> Any:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.closing and self.alive:
            self._world.report_internal(f"{context.get('message')}: {context.get('exception')!r}")

    def stand(self) -> None:
        """SIGSTOP."""
        self.standing = True

    def go_on(self) -> None:
        """SIGCONT: what came meanwhile is there at once."""
        self.standing = False
        self._world.ready.extend(self._backlog)
        self._backlog.clear()

    def take(self, handle: Handle) -> bool:
        """Whether a callback may run now; one that may later is kept."""
        if self.closing or (self.alive and not self.standing):
            return True
        self._backlog.append(handle)
        return False


class World:
    """The time, the queue of callbacks, the dice, and what was noted of the history."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now = 10.0  # long after the last of everything
        self.ready: deque[Handle] = deque()
        self.rng = random.Random(plan.seed * 2 + 1)
        self.history: list[str] = []
        self.violations: list[str] = []
        self.noting = False
        self.faults_at: dict[tuple[str, int], Fault] = {
            (fault.process, int(fault.at)): fault for fault in plan.faults if fault.kind in AT_CALL
        }
        self.disturbed_until = 0.0
        self._timers: list[tuple[float, int, Handle]] = []
        self._pushed = 0
        self._ids = 0

    def note(self, text: str) -> None:
        """One line of the history, kept only where somebody will read it."""
        if self.noting:
            self.history.append(f"{self.now:9.4f}  {text}")

    def report(self, invariant: str, what: str) -> None:
        self.violations.append(f"{invariant}: {what}")
        self.note(f"VIOLATION {invariant}: {what}")

    def report_internal(self, what: str) -> None:
        self.report("internal", what)

    def new_id(self) -> str:
        self._ids += 1
        return f"00000000-0000-7000-8000-{self._ids:012x}"

    def latency(self) -> float:
        return _QUICK + self.rng.random() * _SPREAD

    def at(self, when: float, callback: Callable[..., object], *args: Any) -> Handle:
        """Something that happens outside of every process."""
        handle = Handle(None, callback, args, None)
        self.push(when, handle)
        return handle

    def push(self, when: float, handle: Handle) -> None:
        self._pushed += 1
        heapq.heappush(self._timers, (when, self._pushed, handle))

    def run(self, until: Callable[[], bool], last: float) -> None:
        """Until `until` says so, which is asked every quarter of a second, or the time is `last`."""
        left, look_at = _MAX_CALLBACKS, 0.0
        try:
            while left:
                left -= self._run_ready()
                if not self._timers:
                    return
                when = self._timers[0][0]
                if when >= look_at:
                    if when > last or until():
                        return
                    look_at = when + 0.25
                if when > self.now:
                    self.now = when
                self.ready.append(heapq.heappop(self._timers)[2])
            self.report_internal("the callbacks have no end")
        finally:
            asyncio._set_running_loop(None)

    def close(self, loops: list[Loop]) -> None:
        """End every task that is left, so that nothing of this world runs later."""
        for loop in loops:
            loop.closing = True
            loop.go_on()
        for _ in range(50):
            left = [task for loop in loops for task in loop.tasks if not task.done()]
            if not left:
                break
            for task in left:
                task.cancel()
            self._run_ready()
            # Nobody waits in vain any more: only what was cancelled goes on.
            self._timers.clear()
        asyncio._set_running_loop(None)

    def _run_ready(self) -> int:
        ready, running, count = self.ready, None, 0
        while ready:
            handle = ready.popleft()
            if handle.dropped:
                continue
            count += 1
            loop = handle.loop
            if loop is None:
                handle.callback(*handle.args)
                continue
            if not loop.take(handle):
                continue
            if loop is not running:
                running = loop
                asyncio._set_running_loop(loop)
            if handle.context is None:
                handle.callback(*handle.args)
            else:
                handle.context.run(handle.callback, *handle.args)
            if count > _MAX_CALLBACKS:
                break
        return max(count, 1)
