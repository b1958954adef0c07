"""A fall of live scores is told from chance."""

import random
import statistics

import pytest

from conversations.judged.run_scores import Spread, drop_of

_RANDOM = random.Random(11)


def _passes(count: int, share: float) -> Spread:
    values = [float(_RANDOM.random() < share) for _ in range(count)]
    return Spread(count, statistics.mean(values), statistics.variance(values))


@pytest.mark.parametrize("share", [0.6, 0.9, 0.99])
def test_what_stayed_the_same_has_not_fallen(share: float) -> None:
    found = [drop_of(_passes(200, share), _passes(2000, share)) for _ in range(700)]
    assert found == [0.0] * 700


def test_what_fell_by_twenty_points_is_found() -> None:
    found = [drop_of(_passes(200, 0.7), _passes(2000, 0.9)) for _ in range(200)]
    assert sum(each > 0.05 for each in found) >= 190


@pytest.mark.parametrize(
    ("recent", "before", "drop"),
    [
        (Spread(20, 0.0, 0.0), Spread(50, 1.0, 0.0), 1.0),
        (Spread(19, 0.0, 0.0), Spread(50, 1.0, 0.0), 0.0),
        (Spread(20, 0.0, 0.0), Spread(49, 1.0, 0.0), 0.0),
        (Spread(9000, 0.96, 0.0), Spread(9000, 1.0, 0.0), 0.0),
        (Spread(9000, 1.0, 0.0), Spread(9000, 0.5, 0.25), 0.0),
        (Spread(20, 0.9, 0.09), Spread(50, 1.0, 0.0), 0.0),
    ],
    ids=["all lost", "too few", "too few before", "tolerated", "risen", "two of twenty"],
)
def test_a_fall_needs_enough_of_it(recent: Spread, before: Spread, drop: float) -> None:
    assert drop_of(recent, before) == drop
