"""`make drain`: one process after the other is restarted by SIGTERM, round by round, under load."""

import argparse
import asyncio
import random
import signal
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.chaos.checker import why_invalid
from tests.chaos.load import Load
from tests.chaos.plan import MIX, SERVICES, make_rush, make_talk
from tests.chaos.recording import on_a_stack, recorded
from tests.chaos.records import Fault, History
from tests.chaos.report import Outcome, outcome_of
from tests.chaos.restarts import Restart, late_exits, seen_by_clients, text_of, too_few_streams
from tests.chaos.rig import Rig

_MIXED = 6
"""Clients that ask agents of every kind; the others hold slow streams."""
_RAMP_SECONDS = 10.0
_RUSH_EVERY = 25
_GONE_SECONDS = 30.0
_READY_SECONDS = 60.0
_LAST_SECONDS = 120.0


class Drain:
    """Restarts the processes of a rig while clients talk."""

    def __init__(self, rig: Rig, load: Load, history: History) -> None:
        self.restarts: list[Restart] = []
        self._rig = rig
        self._load = load
        self._history = history
        self._stop = asyncio.Event()

    async def run(self, rounds: int, streams: int) -> None:
        """Keep about `streams` streams open during `rounds` restarts of every service."""
        chances = [random.Random(f"{self._history.seed} {number}") for number in range(streams)]
        mixes = [MIX if number < _MIXED else {"slow": 1} for number in range(streams)]
        talking = [asyncio.create_task(self._talk(*each)) for each in zip(chances, mixes, strict=True)]
        try:
            await asyncio.sleep(_RAMP_SECONDS)
            for number in range(rounds):
                for target in SERVICES:
                    self.restarts.append(await self._restart(target))
                print(f"round {number + 1}, {self._rig.clock.now():.0f} s", file=sys.stderr, flush=True)
            self._history.final.healed = self._rig.clock.now()
            self._stop.set()
            async with asyncio.timeout(_LAST_SECONDS):
                await asyncio.gather(*talking)
        finally:
            for task in talking:
                task.cancel()
            await asyncio.gather(*talking, return_exceptions=True)

    async def _talk(self, chance: random.Random, mix: Mapping[str, int]) -> None:
        await asyncio.sleep(chance.uniform(0, _RAMP_SECONDS))
        held = 0
        while not self._stop.is_set():
            talk = (
                make_rush(chance, 0) if mix is MIX and held % _RUSH_EVERY == 0 else make_talk(chance, 0, mix)
            )
            await self._load.run([talk])
            held += 1

    async def _restart(self, target: str) -> Restart:
        """SIGTERM to one process, and wait until it is there again. Raises TimeoutError."""
        kept, clock = self._rig.kin.kept[target], self._rig.clock
        ends, starts = len(kept.codes), len(kept.became_ready)
        open_streams = sum(
            each.form != "json" and each.status == 200 and not each.ended for each in self._load.exchanges
        )
        fault = Fault(kind="term", target=target, at=clock.now(), hit=kept.signal(signal.SIGTERM))
        self._history.faults.append(fault)
        async with asyncio.timeout(_GONE_SECONDS):
            while len(kept.codes) == ends:  # noqa: ASYNC110 - its keeper notes it
                await asyncio.sleep(0.02)
        fault.until = clock.now()
        async with asyncio.timeout(_READY_SECONDS):
            while len(kept.became_ready) == starts:  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.02)
        fault.ready = kept.became_ready[starts]
        return Restart(
            target=target,
            open_streams=open_streams,
            exit_seconds=round(fault.until - fault.at, 3),
            ready_seconds=round(fault.ready - fault.until, 3),
            code=kept.codes[ends],
        )


async def _drained(given: argparse.Namespace, folder: Path) -> tuple[list[Restart], History]:
    async with recorded(folder, given.seed, links=False) as (rig, load, history):
        drained = Drain(rig, load, history)
        await drained.run(given.rounds, given.streams)
        return drained.restarts, history


def run(given: argparse.Namespace) -> Outcome:
    """It has failed too where a client saw an error that it may not see, or a process ended late."""
    restarts, history = on_a_stack(partial(_drained, given))
    seen = seen_by_clients(history)
    return outcome_of(
        f"drain-{given.seed}-{given.rounds}",
        history,
        text=text_of(restarts, seen),
        failed=bool(seen.errors or late_exits(restarts)),
        invalid=[*why_invalid(history), *too_few_streams(restarts, given.streams)],
        drain=[restarts, seen],
    )
