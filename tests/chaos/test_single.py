"""Whether a goal of recovery is met is judged at the 99th percentile."""

import pytest

from tests.chaos.single import Measured


@pytest.mark.requirement("CHAOS-FAULTS")
@pytest.mark.parametrize(("slowest", "told"), [(3.0, "met"), (3.1, "MISSED")])
def test_a_goal_is_missed_when_the_slowest_of_thirty_took_too_long(slowest: float, told: str) -> None:
    measured = Measured(goal=3.0, seconds=[1.0] * 29 + [slowest])
    assert measured.met == (told == "met")
    assert measured.text("gateway") == f"gateway: p50 1.00, p99 {slowest:.2f} s of 30; goal 3 s {told}"
