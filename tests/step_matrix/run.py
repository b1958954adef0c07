"""`make step-matrix`: every point with every action, again and again; then the chaos rig's checker."""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from agentchat.runtime.failpoints import FOLDER, TEST_RUN, VARIABLE
from tests.chaos.recording import on_a_stack, record_history
from tests.chaos.records import History
from tests.chaos.report import Outcome, outcome_of
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
) -> tuple[History, list[Done]]:
    """Carry out the rounds on a stack of its own in `folder`."""
    (folder / FOLDER).mkdir(parents=True)
    (folder / TEST_RUN).touch()
    async with record_history(folder, seed, rebuilds=0, added={VARIABLE: "1"}) as (rig, load, history):
        rounds = Rounds(rig, load, seed, stop_seconds)
        await rounds.run(steps, at_once)
        await rig.kin.wait_ready(60)
        history.faults = rounds.faults
        return history, rounds.done


def judge_outcome(name: str, history: History, done: Sequence[Done]) -> Outcome:
    """What makes it valid is not the load, but how many rounds fired."""
    fired = sum(each.fired is not None for each in done)
    invalid = [] if fired >= _LEAST_FIRED * len(done) else [f"{fired} of {len(done)} rounds fired"]
    return outcome_of(name, history, text=table(done), invalid=invalid)


def table(done: Sequence[Done]) -> str:
    """How often each step fired, of how many rounds."""
    lines = []
    for step in MATRIX:
        own = [each for each in done if each.step == step]
        if own:
            lines.append(f"  {step}: {sum(each.fired is not None for each in own)} of {len(own)}")
    fired = sum(each.fired is not None for each in done)
    return "\n".join([f"{fired} of {len(done)} rounds fired", *lines])


def run(given: argparse.Namespace) -> Outcome:
    steps = steps_of(given.seed, given.rounds, given.only)
    history, done = on_a_stack(lambda folder: record(given.seed, steps, folder, at_once=given.at_once))
    return judge_outcome(f"steps-{given.seed}-{given.rounds}", history, done)
