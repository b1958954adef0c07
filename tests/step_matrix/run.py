"""`make step-matrix ROUNDS=`: every point with every action, again and again; then the chaos rig's checker.

Exit code 0: no violation, 1: some, 2: too few points fired for that to mean anything.
"""

import argparse
import asyncio
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ops.process import Spawn, spawn
from runtime.failpoints import FOLDER, TEST_RUN, VARIABLE
from tests.chaos.load import Load
from tests.chaos.plan import RATE_PER_MINUTE
from tests.chaos.records import History
from tests.chaos.report import Report, report_of, write
from tests.chaos.rig import Rig, running_rig
from tests.chaos.run import OUTPUT, close, commit
from tests.harness import temporary_folder
from tests.step_matrix.points import MATRIX, Step
from tests.step_matrix.rounds import Done, Rounds

STOP_SECONDS = 15.0
_LEAST_FIRED = 0.9


def steps_of(seed: int, rounds: int, only: str = "") -> list[Step]:
    """As many as asked for: the whole matrix, shuffled, before anything comes again.

    Or of it those steps alone whose words have one of `only`, such as `decision,paused`.
    """
    chance = random.Random(seed)
    wanted = [step for step in MATRIX if any(word in str(step) for word in only.split(","))]
    steps: list[Step] = []
    while len(steps) < rounds:
        steps += chance.sample(wanted, len(wanted))
    return steps[:rounds]


async def record(
    seed: int,
    steps: Sequence[Step],
    folder: Path,
    *,
    at_once: int,
    stop_seconds: float = STOP_SECONDS,
    spawn: Spawn = spawn,
) -> tuple[History, list[Done]]:
    """Carry out the rounds on a stack of its own in `folder`."""
    (folder / FOLDER).mkdir(parents=True)
    (folder / TEST_RUN).touch()
    async with running_rig(folder, added={VARIABLE: "1"}, spawn=spawn) as rig:
        history = History(
            seed=seed,
            commit=commit(),
            accounts={name: each.account_id for name, each in rig.access.items()},
            rate_per_minute=RATE_PER_MINUTE,
        )
        rig.clock.restart()
        load = Load(rig.client_ports, rig.access, rig.tail, rig.clock)
        rounds = Rounds(rig, load, seed, stop_seconds)
        await rounds.run(steps, at_once)
        await _close(rig, load, history, rounds)
        return history, rounds.done


async def _close(rig: Rig, load: Load, history: History, rounds: Rounds) -> None:
    await rig.kin.wait_ready(60)
    history.final.healed = rig.clock.now()
    history.faults = rounds.faults
    await close(rig, load, history, rebuilds=0)


def judged(history: History, done: Sequence[Done]) -> Report:
    """The report. What makes it valid is not the load, but how many rounds fired."""
    fired = sum(each.fired is not None for each in done)
    invalid = [] if fired >= _LEAST_FIRED * len(done) else [f"{fired} of {len(done)} rounds fired"]
    return replace(report_of(history), invalid=invalid)


def table(done: Sequence[Done]) -> str:
    """How often each step fired, of how many rounds."""
    lines = []
    for step in MATRIX:
        own = [each for each in done if each.step == step]
        if own:
            lines.append(f"  {step}: {sum(each.fired is not None for each in own)} of {len(own)}")
    fired = sum(each.fired is not None for each in done)
    return "\n".join([f"{fired} of {len(done)} rounds fired", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(prog="make step-matrix")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=len(MATRIX))
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument(
        "--only", default="", help="words of the steps wanted, such as decision,paused; else all"
    )
    given = parser.parse_args()
    steps = steps_of(given.seed, given.rounds, given.only)
    with temporary_folder("agentchat-steps-") as name:
        history, done = asyncio.run(record(given.seed, steps, name / "run", at_once=given.at_once))
    report = judged(history, done)
    write(report, history, OUTPUT / f"steps-{given.seed}-{given.rounds}")
    print(table(done))
    print(report.text())
    sys.exit(1 if report.violations else 2 if report.invalid else 0)


if __name__ == "__main__":
    main()
