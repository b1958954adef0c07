"""Two versions compared without pairs: against simulations of known effect, and at the edges.

Conversations have 1 to 6 runs that resemble each other: half of what decides is the conversation.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agentchat.administration.canary_comparison import FigureComparison, FigureSample, VersionVerdict, decide
from agentchat.evals.statistics import Sample

_RUNS = 6
Values = NDArray[np.float64]


def _draw_means(rng: np.random.Generator, conversations: int, values: Any) -> Values:
    """Of each conversation's runs. `values` draws an array of a shape."""
    own, chance = values((conversations, 1)), values((conversations, _RUNS))
    runs = np.where(rng.random((conversations, _RUNS)) < 0.5, own, chance)
    count = rng.integers(1, _RUNS + 1, conversations)
    kept = np.arange(_RUNS) < count[:, None]
    means: Values = (runs * kept).sum(axis=1) / count
    return means


def _draw_shares(rng: np.random.Generator, conversations: int, share: float) -> Values:
    return _draw_means(rng, conversations, lambda shape: np.where(rng.random(shape) < share, 1.0, 0.0))


def _draw_amounts(rng: np.random.Generator, conversations: int, mean: float) -> Values:
    """With a long tail, as seconds and tokens have."""
    return _draw_means(rng, conversations, lambda shape: mean * rng.lognormal(-0.32, 0.8, shape))


def _build_sample(values: Values) -> Sample:
    return Sample(count=len(values), mean=float(values.mean()), variance=float(values.var(ddof=1)))


def _build_version(figures: Mapping[str, Values]) -> list[FigureSample]:
    return _build_samples({name: _build_sample(each) for name, each in figures.items()})


def _build_samples(figures: Mapping[str, Sample]) -> list[FigureSample]:
    """One of a version, with `completed` where a test has none of its own."""
    known = {"completed": _make_sample(5_000, 1.0)} | dict(figures)
    most = max(each.count for each in known.values())
    return [FigureSample(1, most, name, each.count, each.mean, each.variance) for name, each in known.items()]


def _compare(figure: str, before: Values, after: Values) -> VersionVerdict:
    return decide(_build_version({figure: before}), _build_version({figure: after}))


def _find(compared: VersionVerdict, figure: str) -> FigureComparison:
    return next(each for each in compared.comparisons if each.figure == figure)


def _is_covering(found: FigureComparison, difference: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= difference <= found.high


@pytest.mark.parametrize(
    ("figure", "before", "after", "counts"),
    [
        ("completed", 0.98, 0.9, (2_000, 100)),
        ("completed", 0.7, 0.75, (400, 400)),
        ("seconds", 2.0, 2.6, (500, 200)),
    ],
)
def test_the_interval_covers_the_true_difference_of_95_in_100_samples(
    figure: str, before: float, after: float, counts: tuple[int, int]
) -> None:
    rng, tries, covered = np.random.default_rng(153), 400, 0
    draw = _draw_shares if figure == "completed" else _draw_amounts
    for _ in range(tries):
        one, other = draw(rng, counts[0], before), draw(rng, counts[1], after)
        found = _find(_compare(figure, one, other), figure)
        covered += _is_covering(found, after - before)
    assert 0.92 <= covered / tries <= 0.99


def test_named_number_of_conversations_decides_four_of_five() -> None:
    rng, decided, asked = np.random.default_rng(153), 0, 0
    for _ in range(80):
        before, after = _draw_shares(rng, 4_000, 0.9), _draw_shares(rng, 120, 0.9)
        more = _compare("completed", before, after).more
        if more is None or more > 5_000:
            continue
        # As is said: if the difference stays as it is.
        before = np.concatenate([before, rng.choice(before, 4_000 * more // 120)])
        again = _compare("completed", before, np.concatenate([after, rng.choice(after, more)]))
        decided, asked = decided + (again.decision != "undecided"), asked + 1
    assert asked >= 20
    assert decided >= 0.7 * asked


def _make_sample(count: int, mean: float, variance: float = 0.0) -> Sample:
    return Sample(count=count, mean=mean, variance=variance)


@pytest.mark.parametrize(
    ("figure", "before", "after", "state"),
    [
        ("completed", _make_sample(29, 1.0), _make_sample(5_000, 0.0), "too_few"),
        ("completed", _make_sample(30, 1.0), _make_sample(30, 0.0), "worse"),
        ("completed", _make_sample(30, 1.0), _make_sample(30, 1.0), "undecided"),
        ("completed", _make_sample(5_000, 1.0), _make_sample(500, 1.0), "same"),
        ("completed", _make_sample(5_000, 0.96, 0.04), _make_sample(5_000, 0.94, 0.05), "same"),
        ("completed", _make_sample(5_000, 0.94, 0.05), _make_sample(5_000, 0.96, 0.04), "better"),
        ("tool_errors", _make_sample(500, 0.0), _make_sample(500, 0.2, 0.16), "worse"),
        ("rating", _make_sample(500, 0.5, 0.5), _make_sample(500, 0.9, 0.2), "better"),
        ("seconds", _make_sample(500, 2.0), _make_sample(500, 2.0), "same"),
        ("seconds", _make_sample(500, 2.0), _make_sample(500, 2.3), "worse"),
        ("cost", _make_sample(500, 2.0, 1.0), _make_sample(500, 2.1, 1.0), "undecided"),
        ("cost", _make_sample(500, 0.0), _make_sample(500, 0.0), "same"),
        ("cost", _make_sample(500, 0.0), _make_sample(500, 0.1), "worse"),
    ],
)
def test_a_figure_is_worse_better_the_same_or_not_decided(
    figure: str, before: Sample, after: Sample, state: str
) -> None:
    found = _find(decide(_build_samples({figure: before}), _build_samples({figure: after})), figure)
    assert found.state == state
    assert (found.low is None) is (state == "too_few")
    assert state == "too_few" or _is_covering(found, found.difference)
    assert found.more is None or state == "undecided"


def test_rare_ratings_decide_nothing() -> None:
    done = _make_sample(5_000, 0.99, 0.01)
    before, after = (
        _build_samples({"completed": done, "rating": each})
        for each in (_make_sample(300, 1.0), _make_sample(3, -1.0))
    )
    assert decide(before, after).decision == "same"


def test_without_conversations_it_is_undecided() -> None:
    nothing = decide([], [])
    assert (nothing.decision, nothing.more) == ("undecided", 30)
    assert nothing.reasons == (
        "completed is known of 0 and 0 conversations, and 30 of each version are needed",
    )
