"""A worker dies at any of its calls while a run changes its model: nothing is lost, doubled or mixed."""

import itertools

import pytest

from tests.simulator.plan import Fault, Kind, Plan, Request
from tests.simulator.simulate import run
from tests.simulator.substitutes import substitute_modules

ASKED = Request(
    number=0,
    at=0.1,
    thread=0,
    gateway=0,
    streaming=True,
    rounds=(("r0.0.0 ", "r0.0.1 ", "r0.0.2 "), ("r0.1.0 ", "r0.1.1 ")),
    calls=(("write",),),
)
CALLS = range(1, 31)
"""More than a worker makes in the run."""


KINDS: tuple[Kind, ...] = ("crash_before", "crash_after")
DEATHS = tuple(itertools.product(KINDS, (0, 2), (1, 2)))
"""The kind of death, the pieces of text before the model fails, and the model call that fails."""


@pytest.mark.parametrize("call", CALLS)
def test_a_death_at_each_call_leaves_the_reply_whole(call: int) -> None:
    _die(call, *DEATHS[call % len(DEATHS)])


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_every_death_at_each_call_leaves_the_reply_whole(call: int) -> None:
    for death in DEATHS:
        _die(call, *death)


def _die(call: int, kind: Kind, pieces: int, at_call: int) -> None:
    fails = Fault(kind="model_fails", at=at_call, seconds=pieces)
    for worker in ("orchestrator-1", "orchestrator-2"):
        dies = Fault(kind=kind, process=worker, at=call, seconds=1.0)
        plan = Plan(seed=call, pace=0.03, requests=(ASKED,), faults=(fails, dies), fallback=True)
        with substitute_modules():
            outcome = run(plan)
        assert outcome.violations == [], plan
