"""One history: processes start, callers ask, faults happen; then what must hold is checked."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from tests.simulator import checks, services
from tests.simulator.bus import SimBus
from tests.simulator.model import Asked, SimTools
from tests.simulator.nats import Nats
from tests.simulator.plan import (
    AT_CALL,
    AT_FRAME,
    AT_MODEL_CALL,
    GATEWAYS,
    ORCHESTRATORS,
    PROCESSES,
    Fault,
    Plan,
)
from tests.simulator.postgres import Postgres
from tests.simulator.process import Process
from tests.simulator.services import Caller, Gateway
from tests.simulator.substitutes import enter
from tests.simulator.world import Loop, World

_PATIENCE_SECONDS = 200.0
_REJOIN_SECONDS = 1.0
_LIVES = 5


class Outcome(msgspec.Struct, kw_only=True):
    """What became of a plan."""

    plan: Plan
    violations: list[str]
    history: list[str]
    seconds: float


class Simulation:
    """The whole system in one world."""

    def __init__(self, plan: Plan, *, noting: bool = False) -> None:
        self.world = World(plan)
        self.world.noting = noting
        self.postgres = Postgres(self.world)
        self.nats = Nats(self.world)
        self.asked = Asked(self.world)
        self.tools = SimTools(self.world)
        self.processes: dict[str, Process] = {}
        self.gateways: dict[str, Gateway] = {}
        self.loops: list[Loop] = []
        self.callers = [Caller(self.world, request, self.postgres) for request in plan.requests]
        self._threads: dict[int, str] = {}
        self._serving: dict[str, list[Caller]] = {name: [] for name in GATEWAYS}

    def run(self) -> Outcome:
        world = self.world
        try:
            for name in PROCESSES:
                self._start(name)
            for caller in self.callers:
                world.at(world.now + caller.request.at, self._ask, caller)
            for fault in world.plan.faults:
                self._arm(fault)
            world.run(self._is_settled, self._last_moment())
            checks.check(self)
        finally:
            world.close(self.loops)
        return Outcome(plan=world.plan, violations=world.violations, history=world.history, seconds=world.now)

    def _last_moment(self) -> float:
        ends = [fault.at + fault.seconds for fault in self.world.plan.faults if fault.kind not in AT_CALL]
        return max([20.0, *ends]) + _PATIENCE_SECONDS

    def _is_settled(self) -> bool:
        return (
            all(caller.done for caller in self.callers)
            and not self.postgres.open_runs
            and not self.nats.requests.messages
            and not self.nats.tools.messages
        )

    def _start(self, name: str) -> None:
        world, before = self.world, self.processes.get(name)
        process = Process(world, name, before.calls if before else 0, self.postgres, self.nats)
        process.crash = self._crash
        self.processes[name] = process
        self.loops.append(process.loop)
        world.note(f"{name} starts")
        bus = SimBus(process, self.nats, lambda: services.list_tools(self.processes))
        asyncio._set_running_loop(process.loop)
        if name in GATEWAYS:
            gateway = self.gateways[name] = Gateway(process, self.postgres, bus)
            work: Any = gateway.serve()
        elif name in ORCHESTRATORS:
            work = services.orchestrate(process, self.postgres, bus, self.asked)
        elif name.startswith("tool"):
            work = services.run_tools(process, self.postgres, bus, self.tools)
        else:
            work = services.project(process, self.postgres, bus)
        main = process.spawn(work)
        main.add_done_callback(lambda task: self._handle_task_end(process, task))
        asyncio._set_running_loop(None)

    def _handle_task_end(self, process: Process, task: "asyncio.Task[object]") -> None:
        if not process.alive or process.loop.closing:
            return
        if not task.cancelled() and task.exception() is not None:
            self.world.report_internal(f"{process.name} ended: {task.exception()!r}")
        self._crash(process, 0.5)

    def _crash(self, process: Process, seconds: float) -> None:
        if not process.alive:
            return
        self.world.note(f"{process.name} is gone, and starts again in {seconds:g} s")
        process.loop.alive = False
        for died in process.on_death:
            died()
        self.world.at(self.world.now + seconds, self._start, process.name)
        for caller in self._serving.get(process.name, ())[:]:
            self._over(process.name, caller)

    def _ask(self, caller: Caller) -> None:
        request = caller.request
        known = self._threads.get(request.thread)
        caller.is_new = known is None
        caller.conversation_id = known or self.world.new_id()
        if caller.is_new:
            self._threads[request.thread] = caller.conversation_id
        self._connect(caller, GATEWAYS[request.gateway], first=True)
        if request.cancel_at is not None:
            self.world.at(self.world.now + request.cancel_at, self._cancel, caller)

    def _connect(self, caller: Caller, name: str, *, first: bool) -> None:
        process, gateway = self.processes[name], self.gateways[name]
        if not process.alive:
            if first:
                caller.refused = "connection refused"
                caller.done = True
            else:
                self.world.at(self.world.now + _REJOIN_SECONDS, self._join, caller)
            return
        self._serving[name].append(caller)
        asyncio._set_running_loop(process.loop)
        task = process.spawn(gateway.ask(caller) if first else gateway.join(caller))
        task.add_done_callback(lambda _: self._over(name, caller))
        asyncio._set_running_loop(None)

    def _over(self, name: str, caller: Caller) -> None:
        """A connection has ended; its caller comes back if there may be more for him."""
        if caller not in self._serving[name]:
            return
        self._serving[name].remove(caller)
        if caller.accepted and services.is_local(caller.last) and len(caller.lives) < _LIVES:
            self.world.at(self.world.now + _REJOIN_SECONDS, self._join, caller)
        else:
            caller.done = True

    def _join(self, caller: Caller) -> None:
        self._connect(caller, GATEWAYS[len(caller.lives) % len(GATEWAYS)], first=False)

    def _cancel(self, caller: Caller) -> None:
        process = self.processes[GATEWAYS[0]]
        if process.alive and caller.accepted:
            process.spawn(self.gateways[GATEWAYS[0]].cancel(caller))

    def _arm(self, fault: Fault) -> None:
        if fault.kind not in AT_CALL | AT_FRAME | AT_MODEL_CALL:
            self.world.at(self.world.now + fault.at, self._break, fault)

    def _break(self, fault: Fault) -> None:
        self.world.note(f"FAULT {fault}")
        end = self.world.now + fault.seconds
        process = self.processes.get(fault.process)
        match fault.kind:
            case "killed":
                if process is not None:
                    self._crash(process, fault.seconds)
            case "stopped":
                if process is not None and process.alive:
                    process.loop.call_soon(process.stop.set)
            case "postgres_away":
                self.postgres.away += 1
                self.world.at(end, self._postgres_back)
            case "nats_away" | "nats_wiped":
                self.nats.away += 1
                self.world.at(end, self._nats_back, fault.kind == "nats_wiped")
            case "nats_full":
                self.nats.fill()
                self.world.at(end, self._nats_restarts)
            case "postgres_cut":
                if process is not None:
                    process.postgres.cut += 1
                    self.world.at(end, self._mend_postgres, process)
            case "nats_cut":
                if process is not None:
                    process.nats.cut += 1
                    self.world.at(end, self._mend_nats, process)
            case "request_twice":
                if self.nats.requests.published:
                    subject, data = self.nats.requests.published[-1]
                    self.nats.requests.publish(subject, data, f"again {fault.at}")
            case _:
                raise AssertionError(fault)

    def _postgres_back(self) -> None:
        self.postgres.away -= 1
        self.world.note("postgres is back")

    def _nats_back(self, wiped: bool) -> None:
        self.nats.away -= 1
        if wiped:
            self.nats.wipe()
        self._nats_restarts()

    def _nats_restarts(self) -> None:
        """At once, or after an absence."""
        self.world.note("nats is back")
        self.nats.restart()
        for process in self.processes.values():
            self._reconnect(process)

    def _mend_postgres(self, process: Process) -> None:
        process.postgres.cut -= 1
        self.world.note(f"{process.name} reaches postgres again")

    def _mend_nats(self, process: Process) -> None:
        process.nats.cut -= 1
        self.world.note(f"{process.name} reaches nats again")
        self._reconnect(process)

    def _reconnect(self, process: Process) -> None:
        if process.reached:
            for listener in tuple(process.listeners):
                process.loop.call_soon(listener)
            self.nats.requests.pump()
            self.nats.tools.pump()


def run(plan: Plan, *, noting: bool = False, before: Callable[[Simulation], None] | None = None) -> Outcome:
    """Run a plan, within `simulated`. `before` may change the system under test first."""
    simulation = Simulation(plan, noting=noting)
    enter(simulation.world)
    if before is not None:
        before(simulation)
    return simulation.run()
