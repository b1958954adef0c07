"""The statistics of a verdict, checked against simulations of known effect, and at their edges."""

import numpy as np
import pytest

from evals.verdict.paired_difference import least_cases, paired_difference, rejected


def _sides(
    rng: np.random.Generator, cases: int, before: float, after: float
) -> tuple[list[float], list[float]]:
    """Cases that pass with these probabilities. Half of what decides is the case, half is chance."""
    own = rng.random(cases)
    one, other = (
        [float(each) for each in np.where(rng.random(cases) < 0.5, own, rng.random(cases)) < share]
        for share in (before, after)
    )
    return one, other


@pytest.mark.parametrize(("cases", "before", "after"), [(100, 0.85, 0.75), (60, 0.9, 0.9), (40, 0.7, 0.5)])
def test_the_interval_covers_the_true_difference_of_95_in_100_samples(
    cases: int, before: float, after: float
) -> None:
    rng = np.random.default_rng(22)
    tries = 120
    found = [paired_difference(*_sides(rng, cases, before, after), tolerated=0.0) for _ in range(tries)]
    covered = sum(each.low <= after - before <= each.high for each in found)
    assert 0.90 <= covered / tries <= 0.99


def test_nothing_changed_is_seldom_found_worse_and_a_drop_of_12_points_is_found_in_200_cases() -> None:
    rng = np.random.default_rng(22)
    unchanged, worse = (
        [paired_difference(*_sides(rng, 200, 0.95, after), tolerated=0.0).p for _ in range(60)]
        for after in (0.95, 0.83)
    )
    assert sum(p <= 0.025 for p in unchanged) <= 3
    assert sum(p <= 0.025 for p in worse) >= 57


@pytest.mark.parametrize(
    ("before", "after", "tolerated", "is_drop"),
    [
        ([1.0] * 20, [0.0] * 20, 0.05, True),
        ([1.0] * 20, [1.0] * 20, 0.0, False),
        ([1.0], [0.0], 0.0, False),
        ([1.0] * 200, [1.0] * 194 + [0.0] * 6, 0.05, False),
        ([1.0] * 200, [1.0] * 194 + [0.0] * 6, 0.0, True),
        ([0.0] * 20, [1.0] * 20, 0.0, False),
    ],
    ids=["all lost", "all the same", "one case", "tolerated", "not tolerated", "all better"],
)
def test_a_drop_is_no_chance_and_more_than_is_tolerated(
    before: list[float], after: list[float], tolerated: float, is_drop: bool
) -> None:
    found = paired_difference(before, after, tolerated)
    assert (found.p <= 0.025) is is_drop
    assert found.low <= found.difference <= found.high
    assert found == paired_difference(before, after, tolerated)


def test_where_all_differences_are_the_same_the_interval_is_of_what_could_be_unseen() -> None:
    found = paired_difference([1.0] * 200, [1.0] * 200, 0.0)
    assert (round(found.low, 3), round(found.high, 3)) == (-0.018, 0.018)
    assert paired_difference([1.0], [1.0], 0.0).low < -0.9


def test_of_several_comparisons_a_smaller_level_is_left_to_each() -> None:
    assert rejected({"a": 0.01, "b": 0.04, "c": 0.5}, 0.05) == {"a"}
    assert rejected({"a": 0.01, "b": 0.02, "c": 0.04}, 0.05) == {"a", "b", "c"}
    assert rejected({}, 0.05) == set()


def test_slices_are_too_small_where_even_a_loss_of_all_cases_could_be_chance() -> None:
    assert least_cases([200], 0.025) == 6
    assert least_cases([200] * 10 + [8] * 100, 0.025) == 9
    assert least_cases([3, 2], 0.025) > 3
    assert least_cases([], 0.025) == 1
