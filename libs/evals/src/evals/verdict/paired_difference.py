"""The same cases before and after: the mean difference, its interval, and how well chance explains it.

A difference is a drop where two things hold of it, each at the level that is asked for (decision 147):

- more cases got worse than better, by the sign test, which is exact for any number of cases;
- the mean is lower than by the tolerated drop, by the t-test.

Its interval is a bootstrap's.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

_RESAMPLES = 1_999
_CONFIDENCE = 0.95
_MOST_ACCELERATED = 1_000
"""Differences for which BCa's correction is computed, in the square of their number. With more it is nil."""
_MOST_DRAWN = 4_000_000
"""Numbers that are drawn at a time: 32 MiB."""
_SEED = 147
_Name = TypeVar("_Name")


class PairedDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Of `count` cases; means and differences are from -1 to 1, `low` and `high` bound 95 % of what samples
    as large as this one would show. `p` is the probability of such a drop by chance.
    """

    count: int
    before: float
    after: float
    difference: float
    low: float
    high: float
    worse: int
    better: int
    p: float


def paired_difference(before: Sequence[float], after: Sequence[float], tolerated: float) -> PairedDifference:
    """Of one value a case, in the same order, from 0 to 1; there is one at least.

    `tolerated` is the drop that does not count. The same values give the same numbers.
    """
    import numpy as np
    from scipy import stats

    differences = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    worse, better = int((differences < 0).sum()), int((differences > 0).sum())
    mean = float(differences.mean())
    if np.ptp(differences) == 0:
        low, high = _of_equal(mean, len(differences))
        by_mean = 0.0 if mean < -tolerated else 1.0
    else:
        is_few = len(differences) <= _MOST_ACCELERATED
        interval = stats.bootstrap(
            (differences,),
            np.mean,
            n_resamples=_RESAMPLES,
            batch=max(1, _MOST_DRAWN // len(differences)),
            confidence_level=_CONFIDENCE,
            method="BCa" if is_few else "percentile",
            rng=np.random.default_rng(_SEED),
        ).confidence_interval
        low, high = float(interval.low), float(interval.high)
        by_mean = float(stats.ttest_1samp(differences, -tolerated, alternative="less").pvalue)
    changed = worse + better
    by_sign = float(stats.binomtest(worse, changed, 0.5, alternative="greater").pvalue) if changed else 1.0
    return PairedDifference(
        count=len(differences),
        before=float(np.mean(before)),
        after=float(np.mean(after)),
        difference=mean,
        low=low,
        high=high,
        worse=worse,
        better=better,
        p=max(by_sign, by_mean),
    )


def rejected(p_values: Mapping[_Name, float], level: float) -> set[_Name]:
    """Those of several that are no chance, by Holm: one in `level` families has a false one at most."""
    found: set[_Name] = set()
    for number, (name, p) in enumerate(sorted(p_values.items(), key=lambda each: each[1])):
        if p > level / (len(p_values) - number):
            break
        found.add(name)
    return found


def least_cases(counts: Sequence[int], level: float) -> int:
    """Of slices with so many cases each: the size from which on one in which every case gets worse is told
    from chance, by the sign test at the level that is left to each.

    Smaller ones are not tested, so they take nothing from the level of the others.
    """
    least = 1
    while (tested := sum(count >= least for count in counts)) and 0.5**least > level / tested:
        least += 1
    return least


def _of_equal(mean: float, count: int) -> tuple[float, float]:
    """Where all differences are the same no resample differs; others can be so rare that none was seen."""
    unseen = 1 - ((1 - _CONFIDENCE) / 2) ** (1 / count)
    return mean - unseen * (1 + mean), mean + unseen * (1 - mean)
