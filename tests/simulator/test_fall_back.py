"""A worker dies at any of its calls while a run changes its model: nothing is lost, doubled or mixed."""

import itertools

import pytest

from tests.simulator.plan import Fault, Kind, Plan, Request
from tests.simulator.simulate import run
from tests.simulator.substitutes import simulated

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


@pytest.mark.parametrize("at_call", [1, 2])
@pytest.mark.parametrize("pieces", [0, 2])
@pytest.mark.parametrize("kind", ["crash_before", "crash_after"])
def test_a_death_at_any_call_leaves_the_reply_whole(kind: Kind, pieces: int, at_call: int) -> None:
    fails = Fault(kind="model_fails", at=at_call, seconds=pieces)
    for call, worker in itertools.product(CALLS, ("orchestrator-1", "orchestrator-2")):
        dies = Fault(kind=kind, process=worker, at=call, seconds=1.0)
        plan = Plan(seed=call, pace=0.03, requests=(ASKED,), faults=(fails, dies), fallback=True)
        with simulated():
            outcome = run(plan)
        assert outcome.violations == [], plan
