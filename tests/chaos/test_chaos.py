"""A short run with a fixed seed: every invariant holds while the stack is hurt about once a second."""

from pathlib import Path

import pytest

from tests.chaos.plan import make_plan
from tests.chaos.report import report_of, write
from tests.chaos.run import OUTPUT, record

SEED = 3625

pytestmark = [
    pytest.mark.requirement("CHAOS-FAULTS"),
    pytest.mark.requirement(
        "CHAOS-I1", "CHAOS-I2", "CHAOS-I3", "CHAOS-I4", "CHAOS-I5", "CHAOS-I6", "CHAOS-I7"
    ),
    pytest.mark.requirement(
        "CHAOS-I7", "CHAOS-I8", "CHAOS-I9", "CHAOS-I10", "CHAOS-I11", "CHAOS-I12", "CHAOS-I13"
    ),
    pytest.mark.requirement("CHAOS-I14", "CHAOS-I15", "CHAOS-I16"),
]


@pytest.mark.timeout(240)
async def test_no_invariant_is_violated_while_processes_and_links_fail(tmp_path: Path) -> None:
    history = await record(make_plan(SEED, 40, 12.0, every=1.0, longest=3.0), tmp_path / "run", rebuilds=0)
    report = report_of(history)
    write(report, history, OUTPUT / "test")
    assert report.violations == [], report.text()
    assert report.invalid == [], report.text()
