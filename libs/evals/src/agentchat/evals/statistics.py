"""Compute differences of means with 95 % intervals, and decide by them, for suites and for canaries.

A suite compares the same cases before and after (`compare_paired`). Two versions of an agent that answered
different conversations are compared by the counts, means and variances of two samples (`compare_unpaired`),
which a database adds up. Everything is a normal approximation: fewer than LEAST values decide nothing.

Several comparisons are one family. Holm's method keeps the probability of a false `worse` in a family, if
nothing has changed, at LEVEL / 2, and that of a false `better` at as much.
"""

from collections.abc import Mapping, Sequence
from math import inf, sqrt
from statistics import NormalDist, fmean, variance
from typing import Literal

import msgspec

LEVEL = 0.05
LEAST = 30
_NORMAL = NormalDist()
_TWO_SIDED = _NORMAL.inv_cdf(1 - LEVEL / 2)

State = Literal["worse", "better", "same", "undecided", "too_few"]
"""`worse`: by more than is tolerated. `same`: certainly not worse by more than that."""
Bounds = tuple[float, float]


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one figure. `variance` is that of single values, not of their mean."""

    count: int = 0
    mean: float = 0.0
    variance: float = 0.0

    @classmethod
    def of(cls, values: Sequence[float]) -> "Sample":
        """Add up values; without any the sample is empty."""
        if not values:
            return cls()
        return cls(
            count=len(values), mean=fmean(values), variance=variance(values) if len(values) > 1 else 0.0
        )

    def pad(self, bounds: Bounds) -> "Sample":
        """Add one value at each bound (Agresti and Caffo): 30 successes of 30 do not show certainty."""
        low, high = bounds
        count = self.count + 2
        mean = (self.count * self.mean + low + high) / count
        squares = (self.count - 1) * self.variance + self.count * self.mean**2 + low**2 + high**2
        return Sample(count=count, mean=mean, variance=squares / count - mean**2)

    @property
    def squared_error(self) -> float:
        """The squared standard error of the mean."""
        return self.variance / self.count if self.count else inf


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """After minus before, in the figure's unit and sign. `low` and `high` bound 95 % (None: too few values).

    `margin` is the difference above the tolerated drop in standard errors, `gain` the difference in standard
    errors. Both are positive if good.
    """

    count: int
    before: float
    after: float
    value: float
    low: float | None
    high: float | None
    tolerated: float
    margin: float
    gain: float


def compare_paired(before: Sequence[float], after: Sequence[float], tolerated: float) -> Difference:
    """Compare two values from 0 to 1 of each case, in the same order; higher is better."""
    found = Sample.of([new - old for old, new in zip(before, after, strict=True)])
    used = found.pad((-1.0, 1.0))
    error = sqrt(used.squared_error)
    enough = found.count >= LEAST
    return Difference(
        count=found.count,
        before=fmean(before) if before else 0.0,
        after=fmean(after) if after else 0.0,
        value=found.mean,
        low=min(found.mean, used.mean - _TWO_SIDED * error) if enough else None,
        high=max(found.mean, used.mean + _TWO_SIDED * error) if enough else None,
        tolerated=tolerated,
        margin=_divide_by_error(used.mean + tolerated, error),
        gain=_divide_by_error(used.mean, error),
    )


def compare_unpaired(
    before: Sample,
    after: Sample,
    tolerated: float,
    *,
    higher_is_better: bool,
    bounds: Bounds | None = None,
) -> Difference:
    """Compare two samples. Without `bounds` of its values, `tolerated` is a share of the mean before."""
    sign = 1 if higher_is_better else -1
    used_before, used_after = (each.pad(bounds) if bounds else each for each in (before, after))
    value = used_after.mean - used_before.mean
    error = sqrt(used_before.squared_error + used_after.squared_error)
    if bounds:
        margin, margin_error = sign * value + tolerated, error
    else:  # the mean before varies too, and what is tolerated with it
        times = 1 - sign * tolerated
        margin = sign * (used_after.mean - times * used_before.mean)
        margin_error = sqrt(used_after.squared_error + times**2 * used_before.squared_error)
    enough = min(before.count, after.count) >= LEAST
    difference = after.mean - before.mean
    return Difference(
        count=min(before.count, after.count),
        before=before.mean,
        after=after.mean,
        value=difference,
        low=min(difference, value - _TWO_SIDED * error) if enough else None,
        high=max(difference, value + _TWO_SIDED * error) if enough else None,
        tolerated=tolerated if bounds else tolerated * before.mean,
        margin=_divide_by_error(margin, margin_error, certain=inf if margin >= 0 else -inf),
        gain=_divide_by_error(sign * value, error),
    )


def decide_states(family: Sequence[Difference]) -> list[State]:
    """Decide each difference of a family."""
    tested = {place: each for place, each in enumerate(family) if each.count >= LEAST}
    worse = _reject_by_chance({place: _NORMAL.cdf(each.margin) for place, each in tested.items()})
    better = _reject_by_chance({place: _NORMAL.cdf(-each.gain) for place, each in tested.items()})
    found: list[State] = []
    for place, each in enumerate(family):
        if place not in tested:
            found.append("too_few")
        elif place in worse:
            found.append("worse")
        elif place in better:
            found.append("better")
        else:
            found.append("same" if each.margin >= _TWO_SIDED else "undecided")
    return found


def _reject_by_chance(p_values: Mapping[int, float]) -> set[int]:
    """Return the differences that chance does not explain, by Holm's method at LEVEL / 2."""
    found: set[int] = set()
    for number, (place, p) in enumerate(sorted(p_values.items(), key=lambda each: each[1])):
        if p > LEVEL / 2 / (len(p_values) - number):
            break
        found.add(place)
    return found


def _divide_by_error(value: float, error: float, certain: float | None = None) -> float:
    """Divide by the error; `certain` is the result without an error."""
    if error == inf:
        return 0.0
    if error:
        return value / error
    return certain if certain is not None else inf * value if value else 0.0
