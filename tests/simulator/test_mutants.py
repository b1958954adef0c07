"""The simulator finds the bugs that it is there for."""

import itertools

import pytest

from tests.simulator import mutants
from tests.simulator.search import first_failure, report_of, shrink_plan
from tests.simulator.simulate import run
from tests.simulator.substitutes import substitute_modules

pytestmark = pytest.mark.slow

SEEDS = range(1_000, 3_000)
"""Each of the bugs is found by one of these."""


@pytest.mark.parametrize(("mutant", "near"), mutants.FOUND_NEAR.items(), ids=lambda value: str(value))
def test_a_bug_is_found_within_2000_histories(mutant: str, near: int) -> None:
    with getattr(mutants, mutant)():
        # It was found there; a change of the plans only makes the search longer.
        assert first_failure(itertools.chain(range(near, SEEDS.stop), SEEDS)) is not None


def test_failure_is_shrunk_to_a_readable_history() -> None:
    with mutants.every_tool_is_repeated():
        failure = first_failure(range(mutants.FOUND_NEAR["every_tool_is_repeated"], SEEDS.stop))
        assert failure is not None
        report = report_of(failure)
        with substitute_modules():
            small = shrink_plan(failure.plan)
            again = run(small)
    assert again.violations
    assert len(small.requests) == 1
    assert len(small.faults) <= 2
    assert f"make simulate SEEDS=1 FROM={failure.plan.seed}" in report
    assert "TOOL write runs" in report
    assert "I10" in report.splitlines()[-1]
