"""Whether something grows is told from samples of a soak."""

import pytest

from tests.chaos.growth import Sample, growths, slope

pytestmark = pytest.mark.requirement("CHAOS-SOAK")


def _samples(mib: float = 0.0, **each: int) -> list[Sample]:
    """Of 100,000 requests, in which `mib` and the counts grow with every 5,000."""
    return [
        Sample(
            name="gateway-1",
            requests=5000 * (number + 1),
            mib=100.0 + mib * number,
            **{name: 10 + count * number for name, count in each.items()},
        )
        for number in range(20)
    ]


def _problems(samples: list[Sample]) -> list[str]:
    return [problem for growth in growths(samples) for problem in growth.problems()]


def test_what_is_flat_is_no_problem() -> None:
    assert _problems(_samples()) == []
    assert _problems(_samples(mib=0.4)) == []


def test_memory_that_grows_with_the_requests_is_named() -> None:
    assert _problems(_samples(mib=0.6)) == ["gateway-1: memory grew by 1.20 MiB each 10,000 requests"]


@pytest.mark.parametrize("kind", ["files", "sockets", "tasks", "subscriptions"])
def test_what_is_left_behind_is_named(kind: str) -> None:
    assert _problems(_samples(**{kind: 1})) == [f"gateway-1: {kind} grew from 19 to 29"]


def test_a_pool_that_has_closed_what_it_opened_is_no_growth() -> None:
    samples = [
        Sample(name="orchestrator-1", requests=5000 * number, sockets=30 + 20 * (number % 3 == 1))
        for number in range(20)
    ]
    assert _problems(samples) == []


def test_what_fills_in_the_first_quarter_is_no_growth() -> None:
    early = [Sample(name="gateway-1", requests=5000 * number, mib=20.0 * number) for number in range(5)]
    assert _problems([*early, *_samples()[5:]]) == []


def test_a_slope_is_that_of_the_straight_line() -> None:
    assert slope([(0, 1), (10, 3), (20, 5)]) == pytest.approx(0.2)
    assert slope([(5, 1)]) == 0
