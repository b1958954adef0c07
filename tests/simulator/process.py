"""Processes that run, stand still, or die between two callbacks, and their calls, any of which may fail."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.simulator.plan import Fault
from tests.simulator.world import Loop, World

T = TypeVar("T")
_AGAIN_SECONDS = 0.4


class Link:
    """The way of one process to a server, which can be cut; and the server, which can be away."""

    def __init__(self, server: "Server") -> None:
        self.cut = 0
        self.server = server

    @property
    def up(self) -> bool:
        return self.server.up and not self.cut


class Server:
    """Whether a server is there."""

    def __init__(self) -> None:
        self.away = 0

    @property
    def up(self) -> bool:
        return not self.away


class Process:
    """One start of a service: its loop, its links, and its calls, which are numbered over all its starts."""

    def __init__(self, world: World, name: str, calls: int, postgres: Server, nats: Server) -> None:
        self.world = world
        self.name = name
        self.calls = calls
        self.loop = Loop(world)  # type: ignore[abstract]  # the rest of a loop is I/O
        self.postgres = Link(postgres)
        self.nats = Link(nats)
        self.stop = asyncio.Event()
        self.on_death: list[Callable[[], None]] = []
        self.listeners: list[Callable[[], None]] = []
        self.crash: Callable[[Process, float], None] = lambda _process, _seconds: None
        self._stands_until = 0.0
        self._last_leaves_at = 0.0

    @property
    def alive(self) -> bool:
        return self.loop.alive

    @property
    def reached(self) -> bool:
        """Whether NATS and this process hear each other."""
        return self.alive and self.nats.up

    def spawn(self, work: Coroutine[Any, Any, object]) -> "asyncio.Task[object]":
        task: asyncio.Task[object] = self.loop.create_task(work)
        return task

    def pause(self, seconds: float) -> None:
        """Stand still for so long."""
        world = self.world
        world.note(f"{self.name} is stopped for {seconds:g} s")
        self._stands_until = max(self._stands_until, world.now + seconds)
        self.loop.stand()
        world.at(self._stands_until, self._go_on)

    def _go_on(self) -> None:
        if self.alive and self.loop.standing and self.world.now >= self._stands_until:
            self.world.note(f"{self.name} goes on")
            self.loop.go_on()

    def sends(self, what: str) -> float | None:
        """Return when a message leaves that nobody answers, or None if it never does.

        A connection to NATS keeps its order, so a slow message holds up those behind it.
        """
        if not self.alive or self.loop.closing:
            return None
        fault = self._next_fault(what)
        when = max(self.world.now, self._stands_until, self._last_leaves_at)
        if fault is None:
            return when
        match fault.kind:
            case "crash_before":
                self.crash(self, fault.seconds)
                return None
            case "crash_after":
                self.crash(self, fault.seconds)
            case "pause_before" | "pause_after":
                self.pause(fault.seconds)
            case "lose_request" | "lose_reply":
                return None
            case "slow":
                when = self._last_leaves_at = when + fault.seconds
        return when

    async def call(
        self,
        link: Link,
        what: str,
        effect: Callable[[], T],
        *,
        patience: float,
        away: Callable[[str], Exception],
        again: bool = False,
    ) -> T:
        """A call to a server: `effect` happens there, if it gets there; its result comes back, if it does.

        `again`: what is not answered is sent a second time, as it does no harm. Raises what `away` makes.
        """
        if self.loop.closing:
            raise asyncio.CancelledError
        call = _Call(self, link, what, effect, patience, away, again)
        if self.alive:
            call.begin(self._next_fault(what))
        return await call.done  # type: ignore[no-any-return]  # a future of T

    def _next_fault(self, what: str) -> Fault | None:
        self.calls += 1
        fault = self.world.faults_at.get((self.name, self.calls))
        if fault is not None:
            self.world.note(f"FAULT {fault.kind} {self.name} call {self.calls}: {what}")
            self.world.disturbed_until = max(self.world.disturbed_until, self.world.now + fault.seconds)
        return fault


class _Call:
    """One call on its way."""

    __slots__ = ("_again", "_away", "_deadline", "_effect", "_link", "_process", "_what", "_world", "done")

    def __init__(
        self,
        process: Process,
        link: Link,
        what: str,
        effect: Callable[[], Any],
        patience: float,
        away: Callable[[str], Exception],
        again: bool,
    ) -> None:
        self.done: asyncio.Future[Any] = process.loop.create_future()
        self._process = process
        self._world = process.world
        self._link = link
        self._what = what
        self._effect = effect
        self._away = away
        self._again = again
        self._deadline = process.world.now + patience

    def begin(self, fault: Fault | None) -> None:
        process, world = self._process, self._world
        start = max(world.now, process._stands_until)
        kind = None if fault is None else fault.kind
        if fault is not None:
            match kind:
                case "crash_before":
                    process.crash(process, fault.seconds)
                    return
                case "pause_before":
                    process.pause(fault.seconds)
                    start = process._stands_until
                case "slow":
                    start += fault.seconds
                case _:
                    pass
        world.at(start + world.latency(), self._arrive, fault)

    def _arrive(self, fault: Fault | None) -> None:
        kind = None if fault is None else fault.kind
        if not self._process.alive:
            return
        if not self._link.up or kind == "lose_request":
            self._retry()
            return
        try:
            result, error = self._effect(), None
        except Exception as raised:  # noqa: BLE001 - it is the caller's
            result, error = None, raised
        if fault is not None and kind == "crash_after":
            self._process.crash(self._process, fault.seconds)
        elif kind == "lose_reply":
            self._handle_loss()
        else:
            if fault is not None and kind == "pause_after":
                self._process.pause(fault.seconds)
            self._world.at(self._world.now + self._world.latency(), self._reply, result, error)

    def _reply(self, result: Any, error: Exception | None) -> None:
        if self._link.up:
            self._process.loop.call_soon(self._settle, result, error)
        else:
            self._handle_loss()

    def _handle_loss(self) -> None:
        """It was done, and nobody hears of it: who may repeat it does."""
        if self._again:
            self._retry()
        else:
            self._world.at(max(self._deadline, self._world.now), self._give_up)

    def _retry(self) -> None:
        world = self._world
        if world.now + _AGAIN_SECONDS < self._deadline:
            world.at(world.now + _AGAIN_SECONDS, self._arrive, None)
        else:
            world.at(max(self._deadline, world.now), self._give_up)

    def _give_up(self) -> None:
        if self._process.alive:
            self._process.loop.call_soon(self._settle, None, self._away(f"{self._what} was not answered"))

    def _settle(self, result: Any, error: Exception | None) -> None:
        if self.done.done():
            return
        if error is not None:
            self.done.set_exception(error)
        else:
            self.done.set_result(result)
