"""Histories that the simulator has found and that were mended since, each with the fault after it."""

import pytest

from tests.simulator.plan import Fault, Plan, Request
from tests.simulator.simulate import run
from tests.simulator.substitutes import substitute_modules

TWO_DELIVERIES_AT_ONE_WORKER = Plan(
    seed=18250,
    pace=3.0,
    requests=(
        Request(
            number=0,
            at=0.67,
            thread=0,
            gateway=1,
            streaming=True,
            rounds=(("r0.0.0 ",), (), ("r0.2.0 ", "r0.2.1", "r0.2.2 ", "r0.2.3")),
            calls=(("write",), ("write", "read")),
        ),
        Request(
            number=1,
            at=0.041,
            thread=1,
            gateway=0,
            streaming=True,
            rounds=(("r1.0.0 ", "r1.0.1 ", "r1.0.2 ", "r1.0.3 "), ("r1.1.0 ",)),
            calls=(("read",),),
        ),
    ),
    faults=(
        Fault(kind="postgres_cut", at=0.734, process="orchestrator-2", seconds=16.884),
        Fault(kind="nats_away", at=2.338, seconds=3.397),
    ),
)
"""The sweeper's copy of a request came to the worker that still had the request, cut off from Postgres.

Each of its two deliveries released the other's lease when it lost the race for the log, five times over.
"""

TWO_DELIVERIES_IN_LINE = Plan(
    seed=186,
    pace=3.0,
    requests=tuple(
        Request(
            number=number,
            at=0.5 * number,
            thread=0,
            gateway=number % 2,
            streaming=True,
            rounds=(tuple(f"r{number}.0.{piece} " for piece in range(pieces)),),
            calls=(),
        )
        for number, pieces in enumerate((4, 7, 1))
    ),
    faults=(
        Fault(kind="pause_before", at=33.0, process="orchestrator-1", seconds=17.869909618572237),
        Fault(kind="pause_before", at=15.0, process="orchestrator-1", seconds=19.352684210239964),
    ),
)
"""A worker that was stopped got a request again that it still had in line.

Its first delivery gave up the place of the second one, which then broke.
"""


@pytest.mark.parametrize("plan", [TWO_DELIVERIES_AT_ONE_WORKER, TWO_DELIVERIES_IN_LINE])
def test_request_delivered_twice_ends_its_run_well(plan: Plan) -> None:
    with substitute_modules():
        outcome = run(plan)
    assert outcome.violations == []
