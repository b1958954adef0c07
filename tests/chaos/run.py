"""Runs of the rig and of the watched stack, and what came of each: `python -m tests.chaos.run MODE --help`.

Exit code 0: all that is promised held, 1: something did not, 2: too little was done to prove anything.
"""

import argparse
import asyncio
import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos import failover
from tests.chaos.faults import Nemesis
from tests.chaos.plan import Plan, make_plan
from tests.chaos.recording import on_a_stack, record_history, wait_until_finished
from tests.chaos.records import History, load_history
from tests.chaos.report import Outcome, outcome_of
from tests.step_matrix import run as step_matrix
from tests.step_matrix.points import MATRIX

OUTPUT = Path(".chaos")


async def record(plan: Plan, folder: Path, *, rebuilds: int = 1) -> History:
    """Carry out a plan on a stack of its own in `folder`."""
    async with record_history(folder, plan.seed, rebuilds=rebuilds) as (rig, load, history):
        nemesis = Nemesis(rig)
        talking = asyncio.create_task(load.run(plan.talks))
        try:
            await nemesis.run(plan.blows)
        finally:
            await nemesis.heal()
        history.faults = nemesis.faults
        await wait_until_finished(rig, history, talking)
        return history


def _faults(given: argparse.Namespace) -> Outcome:
    if given.again:
        return outcome_of("", load_history(Path(given.again)))
    only = [kind for kind in given.only.split(",") if kind]
    plan = make_plan(given.seed, given.requests, given.minutes * 60, given.every, given.longest, only=only)
    work = functools.partial(record, plan, rebuilds=given.rebuilds)
    return outcome_of(f"{given.seed}-{given.requests}", on_a_stack(work, given.keep))


class Mode(NamedTuple):
    """What `run` does with its options, by their defaults."""

    run: Callable[[argparse.Namespace], Outcome]
    options: Mapping[str, object]


MODES = {
    "faults": Mode(
        _faults,
        {
            "requests": 250,
            "minutes": 1.0,
            "every": 2.0,
            "longest": 12.0,
            "only": "",
            "rebuilds": 1,
            "keep": "",
            "again": "",
        },
    ),
    "failover": Mode(failover.run, failover.OPTIONS),
    "step-matrix": Mode(step_matrix.run, {"rounds": len(MATRIX), "at-once": 4, "only": ""}),
}
_HELP = {
    "every": "seconds between faults",
    "longest": "seconds of a fault at most",
    "only": "kinds of fault, such as wipe,kill:postgres, or words of steps, such as decision; else all",
    "rebuilds": "of the read models, at the end",
    "keep": "a folder to keep the stack's data and logs in",
    "way": "what fails over: Postgres as synchronous, asynchronous or none, or nats",
    "pause": "seconds for which a step lasts after its fault",
    "again": "a history.json to judge again, instead of a run",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run")
    modes = parser.add_subparsers(dest="mode", required=True)
    for name, mode in MODES.items():
        options = modes.add_parser(name)
        options.add_argument("--seed", type=int, default=1)
        options.add_argument("--output", help="a folder for what came of it")
        for option, default in mode.options.items():
            kind: dict[str, Any] = {"type": type(default), "default": default}
            if default is False:
                kind = {"action": "store_true"}
            options.add_argument(f"--{option}", help=_HELP.get(option), **kind)
    given = parser.parse_args()
    outcome = MODES[given.mode].run(given)
    if outcome.name:
        folder = Path(given.output or OUTPUT / outcome.name)
        folder.mkdir(parents=True, exist_ok=True)
        outcome.history.save(folder / "history.json")
    print(outcome.text, *outcome.invalid, sep="\n")
    sys.exit(1 if outcome.failed else 2 if outcome.invalid else 0)


if __name__ == "__main__":
    main()
