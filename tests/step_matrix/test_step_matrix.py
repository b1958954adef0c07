"""A few steps of the matrix, at once: every invariant holds."""

from pathlib import Path

import pytest

from tests.step_matrix.points import MATRIX
from tests.step_matrix.run import judge_outcome, record

STEPS = (
    "gateway-published kill",
    "orchestrator-said kill",
    "orchestrator-appended eat",
    "orchestrator-before-completed stop",
    "orchestrator-decided kill",
    "tool-runner-called kill",
    "projector-in-batch raise",
)


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_no_step_of_a_request_violates_an_invariant(tmp_path: Path) -> None:
    steps = [step for step in MATRIX if str(step) in STEPS]
    history, done = await record(1, steps, tmp_path / "run", at_once=len(STEPS), stop_seconds=4.0)
    outcome = judge_outcome("", history, done)
    assert len(done) == len(STEPS)
    assert not outcome.failed, outcome.text
    assert outcome.invalid == [], outcome.text
