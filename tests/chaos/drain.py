"""`make drain`: one process after the other is restarted by SIGTERM, round by round, under load.

Exit code 1: an invariant is violated, a client saw an error that it may not see, or a process ended late;
2: too little was done.
"""

import argparse
import asyncio
import random
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tests.chaos.load import Load
from tests.chaos.plan import MIX, SERVICES, make_rush, make_talk
from tests.chaos.records import Fault, History
from tests.chaos.report import report_of, write
from tests.chaos.restarts import Restart, late_exits, seen_by_clients, text_of, too_few_streams
from tests.chaos.rig import Rig, running_rig
from tests.chaos.run import OUTPUT, begin, close
from tests.harness import temporary_folder

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


async def drain(rounds: int, streams: int, seed: int, folder: Path) -> tuple[list[Restart], History]:
    """A run on a stack of its own in `folder`."""
    async with running_rig(folder, links=False) as rig:
        load, history = begin(rig, seed)
        drained = Drain(rig, load, history)
        await drained.run(rounds, streams)
        await close(rig, load, history, rebuilds=1)
        return drained.restarts, history


def main() -> None:
    parser = argparse.ArgumentParser(prog="make drain")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with temporary_folder("agentchat-drain-") as name:
        restarts, history = asyncio.run(drain(given.rounds, given.streams, given.seed, name / "run"))
    report, seen = report_of(history), seen_by_clients(history)
    folder = OUTPUT / f"drain-{given.seed}-{given.rounds}"
    write(report, history, folder)
    (folder / "drain.json").write_bytes(msgspec.json.format(msgspec.json.encode([restarts, seen])))
    invalid = [*report.invalid, *too_few_streams(restarts, given.streams)]
    print(report.text(), text_of(restarts, seen), *invalid, sep="\n")
    failed = bool(report.violations or seen.errors or late_exits(restarts))
    sys.exit(1 if failed else 2 if invalid else 0)


if __name__ == "__main__":
    main()
