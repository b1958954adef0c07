"""`make drain`: one process after the other is restarted by SIGTERM, round by round, under load."""

import argparse
import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
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
RAMP_SECONDS = 10.0
_RUSH_EVERY = 25
_GONE_SECONDS = 30.0
_READY_SECONDS = 60.0
_LAST_SECONDS = 120.0


@contextlib.asynccontextmanager
async def talking(
    rig: Rig, load: Load, history: History, mixes: Sequence[Mapping[str, int]]
) -> AsyncIterator[None]:
    """A client for each mix of agents talks while the block runs, from within ten seconds on.

    After the block they finish what they say. Raises TimeoutError where they do not.
    """
    stop = asyncio.Event()

    async def talk(chance: random.Random, mix: Mapping[str, int]) -> None:
        await asyncio.sleep(chance.uniform(0, RAMP_SECONDS))
        held = 0
        while not stop.is_set():
            rushes = "short" in mix and held % _RUSH_EVERY == 0
            await load.run([make_rush(chance, 0) if rushes else make_talk(chance, 0, mix)])
            held += 1

    chances = [random.Random(f"{history.seed} {number}") for number in range(len(mixes))]
    clients = [asyncio.create_task(talk(*each)) for each in zip(chances, mixes, strict=True)]
    try:
        await asyncio.sleep(RAMP_SECONDS)
        yield
        history.final.healed = rig.clock.now()
        stop.set()
        async with asyncio.timeout(_LAST_SECONDS):
            await asyncio.gather(*clients)
    finally:
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


async def restart(rig: Rig, load: Load, history: History, target: str) -> Restart:
    """SIGTERM to one process, and wait until it is there again. Raises TimeoutError."""
    kept, clock = rig.kin.kept[target], rig.clock
    ends, starts = len(kept.codes), len(kept.became_ready)
    open_streams = sum(
        each.form != "json" and each.status == 200 and not each.ended for each in load.exchanges
    )
    fault = Fault(kind="term", target=target, at=clock.now(), hit=kept.signal(signal.SIGTERM))
    history.faults.append(fault)
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
        restarts: list[Restart] = []
        mixes = [MIX if number < _MIXED else {"slow": 1} for number in range(given.streams)]
        async with talking(rig, load, history, mixes):
            for number in range(given.rounds):
                restarts += [await restart(rig, load, history, target) for target in SERVICES]
                print(f"round {number + 1}, {rig.clock.now():.0f} s", file=sys.stderr, flush=True)
        return restarts, history


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
