"""`make recovery`: one fault at a time on a stack at rest, and how long a client waits after it."""

import argparse
import asyncio
import os
import random
import signal
import sys
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec

from tests.chaos.load import Load
from tests.chaos.plan import Step, Talk
from tests.chaos.recording import on_a_stack, recorded
from tests.chaos.records import Exchange, Fault, History
from tests.chaos.recovery import first_delta, percentile
from tests.chaos.report import Outcome, outcome_of
from tests.chaos.rig import Rig
from tests.chaos.tail import read_events

_LOOK_SECONDS = 0.005
_ROUND_SECONDS = 60.0


class Measured(msgspec.Struct, kw_only=True):
    """Of one kind of fault: seconds from the kill, of each round, and how many they may be."""

    goal: float
    seconds: list[float] = msgspec.field(default_factory=list)

    @property
    def p99(self) -> float:
        return percentile(sorted(self.seconds), 0.99)

    @property
    def met(self) -> bool:
        return self.p99 <= self.goal

    def text(self, name: str) -> str:
        """For a terminal."""
        p50 = percentile(sorted(self.seconds), 0.5)
        told = f"goal {self.goal:g} s {'met' if self.met else 'MISSED'}"
        return f"{name}: p50 {p50:.2f}, p99 {self.p99:.2f} s of {len(self.seconds)}; {told}"


class Single:
    """Rounds on a rig; `measured` is what came of them."""

    def __init__(self, rig: Rig, load: Load, history: History) -> None:
        self.measured = {
            "worker killed before its text, to the reply": Measured(goal=12.0),
            "NATS killed, to the first delta": Measured(goal=5.0),
            "gateway killed, to ready": Measured(goal=3.0),
        }
        self._rig = rig
        self._load = load
        self._history = history
        self._chance = random.Random(history.seed)

    async def run(self, rounds: int) -> None:
        """Each fault so often, in turn, and a message before each that shows that the stack is at rest."""
        faults: tuple[Callable[[], Awaitable[float]], ...] = (self._worker, self._nats, self._gateway)
        for number in range(rounds):
            for measured, fault in zip(self.measured.values(), faults, strict=True):
                await self._rig.kin.wait_ready(_ROUND_SECONDS)
                await self._say("short")[0]
                async with asyncio.timeout(_ROUND_SECONDS):
                    measured.seconds.append(round(await fault(), 3))
            last = [each.seconds[-1] for each in self.measured.values()]
            print(f"round {number + 1}: {last} s, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)

    async def _worker(self) -> float:
        """Killed when it has accepted a message whose reply begins half a second later."""
        talking, ask = self._say("late")
        while not (found := self._tries(ask)) or not found[-1].body:  # noqa: ASYNC110 - polled, it is short
            await asyncio.sleep(_LOOK_SECONDS)
        fault = self._kill(await self._holder(found[-1].headers["x-trace-id"]))
        await talking
        assert first_delta(found[-1]) > fault.at, "the text was faster than the kill"
        return found[-1].ended - fault.at

    async def _nats(self) -> float:
        """A client asks at once, and again until it is answered."""
        fault = self._kill("nats")
        talking, ask = self._say("short")
        await talking
        return first_delta(self._tries(ask)[-1]) - fault.at

    async def _gateway(self) -> float:
        name = self._chance.choice(("gateway-1", "gateway-2"))
        ready = self._rig.kin.kept[name].became_ready
        before = len(ready)
        fault = self._kill(name)
        while len(ready) == before:  # noqa: ASYNC110 - the same
            await asyncio.sleep(_LOOK_SECONDS)
        return ready[before] - fault.at

    def _kill(self, name: str) -> Fault:
        fault = Fault(kind="kill", target=name, at=self._rig.clock.now())
        fault.hit = self._rig.kin.kept[name].signal(signal.SIGKILL)
        fault.until = fault.at
        self._history.faults.append(fault)
        return fault

    async def _holder(self, trace: str) -> str:
        """The orchestrator that has begun the run."""
        events = await read_events(self._rig.environment.database_url, self._rig.clock)
        (began,) = (event for event in events if event.kind == "run_started" and event.trace == trace)
        return str(began.state["worker"]).partition("/")[0]

    def _say(self, agent: str) -> tuple[asyncio.Task[None], str]:
        """A client under way with a message of its own thread; it repeats what is refused for now."""
        ask = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
        account = self._chance.choice("AB")
        step = Step(
            ask=ask,
            agent=agent,
            text=f"[[u:{ask}]] [[acct:{account}]] at rest",
            form="form1",
            gateway=self._chance.randrange(2),
            pause=0.0,
            keyed=True,
        )
        talk = Talk(at=0.0, account=account, steps=(step,))
        return asyncio.create_task(self._load.run((talk,))), ask

    def _tries(self, ask: str) -> list[Exchange]:
        return [each for each in self._load.exchanges[-5:] if each.ask == ask]


async def _measured(given: argparse.Namespace, folder: Path) -> tuple[dict[str, Measured], History]:
    async with recorded(folder, given.seed, rebuilds=0, links=False) as (rig, load, history):
        found = Single(rig, load, history)
        await found.run(given.rounds)
        return found.measured, history


def run(given: argparse.Namespace) -> Outcome:
    """It has failed too where a goal is missed at the 99th percentile."""
    measured, history = on_a_stack(partial(_measured, given))
    goals = [each.text(name) for name, each in measured.items()]
    return outcome_of(
        f"recovery-{given.seed}",
        history,
        text="\n".join([f"load average of 15 minutes {os.getloadavg()[2]:.1f}", *goals]),
        failed=not all(each.met for each in measured.values()),
        invalid=[],
    )
