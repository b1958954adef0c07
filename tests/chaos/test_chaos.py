"""A short run with a fixed seed: every invariant holds while the stack is hurt about once a second."""

from pathlib import Path

import pytest

from tests.chaos.plan import make_plan
from tests.chaos.report import outcome_of
from tests.chaos.run import record

SEED = 31443


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_no_invariant_is_violated_while_processes_and_links_fail(tmp_path: Path) -> None:
    plan = make_plan(SEED, 40, 12.0, every=1.0, longest=3.0)
    outcome = outcome_of("", await record(plan, tmp_path / "run", rebuilds=0))
    assert not outcome.failed, outcome.text
    assert outcome.invalid == [], outcome.text
