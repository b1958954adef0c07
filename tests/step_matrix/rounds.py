"""Rounds: a failpoint is armed, conversations come by until it fires, and what it was armed for is done."""

import asyncio
import contextlib
import random
import signal
from collections.abc import Sequence
from pathlib import Path

import msgspec
import psutil
from msgspec.structs import replace

from agentchat.runtime.failpoints import FOLDER
from tests.chaos.load import Load
from tests.chaos.plan import ACCOUNTS, Talk, make_step
from tests.chaos.processes import Kept
from tests.chaos.records import Fault
from tests.chaos.rig import Rig
from tests.step_matrix.points import Step

_FIRE_SECONDS = 20.0
_EAT_SECONDS = 10.0
_READY_SECONDS = 60.0
_LOOK_SECONDS = 0.02


class Done(msgspec.Struct, kw_only=True):
    """A round. `fired` is None where nothing came by in time."""

    step: Step
    began: float
    fired: str | None = None
    ended: float = 0.0


class Rounds:
    """Carries out rounds on a rig, several at a time. `faults` and `done` are what came of them."""

    def __init__(self, rig: Rig, load: Load, seed: int, stop_seconds: float) -> None:
        self.faults: list[Fault] = []
        self.done: list[Done] = []
        self._rig = rig
        self._load = load
        self._chance = random.Random(seed)
        self._stop_seconds = stop_seconds
        self._armed = rig.folder.path / FOLDER

    async def run(self, steps: Sequence[Step], at_once: int) -> None:
        """All of them; never two of one point at the same time, nor two of the one projector."""
        waiting = list(steps)
        busy: set[str] = set()

        async def work() -> None:
            while step := _next(waiting, busy):
                busy.add(_place(step))
                try:
                    await self._round(step)
                finally:
                    busy.discard(_place(step))

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())

    async def _round(self, step: Step) -> None:
        clock = self._rig.clock
        done = Done(step=step, began=clock.now())
        self.done.append(done)
        action = "stop" if step.action == "eat" else step.action
        armed = self._armed / step.point.name
        fired = armed.with_suffix(".fired")
        fired.unlink(missing_ok=True)
        armed.write_text(f"{action}:{step.point.time}")
        talking = asyncio.create_task(self._load.run(self._talks(step)))
        done.fired = await _name_in(fired)
        if done.fired is not None:
            await self._hurt(step, self._rig.kin.kept[done.fired])
        armed.unlink(missing_ok=True)
        await talking
        done.ended = clock.now()
        where = f"fired in {done.fired}" if done.fired else "did not fire"
        print(f"{done.began:7.1f} s {step}: {where}, took {done.ended - done.began:.1f} s", flush=True)

    def _talks(self, step: Step) -> list[Talk]:
        """Some conversations, one of them of two messages, spread over a second."""
        chance, now = self._chance, self._rig.clock.now()
        counts = (2, 1, 1)
        return [
            _talk(chance, step.point.agent, now + number * 0.4, count) for number, count in enumerate(counts)
        ]

    async def _hurt(self, step: Step, kept: Kept) -> None:
        clock, starts = self._rig.clock, len(kept.became_ready)
        name = kept.process.name
        target = f"{name}>postgres" if step.action == "eat" else name
        fault = Fault(kind=step.action, target=target, at=clock.now(), hit=True)
        self.faults.append(fault)
        match step.action:
            case "stop":
                await asyncio.sleep(self._stop_seconds)
                kept.signal(signal.SIGCONT)
            case "eat":
                await self._eat(fault, kept)
            case "kill":
                fault.ready = await kept.wait_ready_again(starts, _READY_SECONDS)
            case "raise":
                pass
        fault.until = clock.now()

    async def _eat(self, fault: Fault, kept: Kept) -> None:
        proxy = self._rig.proxies[fault.target]
        before = proxy.eaten
        await _stands(kept)
        await proxy.set_mode("eat")
        kept.signal(signal.SIGCONT)
        fault.hit = await proxy.wait_eaten(before, _EAT_SECONDS)


def _place(step: Step) -> str:
    """What two rounds may not share."""
    return "projector" if step.point.name.startswith("projector") else step.point.name


def _next(waiting: list[Step], busy: set[str]) -> Step | None:
    """The first whose point is free; None where there is no more, or none that is free just now."""
    for step in waiting:
        if _place(step) not in busy:
            waiting.remove(step)
            return step
    return None


def _text_of(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


async def _name_in(fired: Path) -> str | None:
    """The process that has come to the point; None if none has in time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_FIRE_SECONDS):
            while True:  # a file of another process
                if name := _text_of(fired):
                    return name
                await asyncio.sleep(_LOOK_SECONDS)
    return None


async def _stands(kept: Kept) -> None:
    """Until it has stopped: a SIGCONT before that would be lost."""
    with contextlib.suppress(psutil.NoSuchProcess):
        while kept.pid is not None and psutil.Process(kept.pid).status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)


def _talk(chance: random.Random, agent: str, at: float, count: int) -> Talk:
    """Messages that are sent at once, under their keys, by clients that stay."""
    account = chance.choice(ACCOUNTS)
    said = (make_step(chance, account, agent) for _ in range(count))
    steps = [replace(each, pause=0.0, keyed=True, leave_after=None, cancel_after=None) for each in said]
    return Talk(at=at, account=account, steps=tuple(steps))
