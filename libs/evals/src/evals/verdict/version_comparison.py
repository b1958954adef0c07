"""Two versions of an agent that answered different conversations at the same time: which one does better.

The levels, the correction for several comparisons and the tolerated drops are those of a suite's verdict. But
nothing is paired here, and the unit is the conversation: its runs go to one version and resemble each other,
so each conversation counts once, with the mean of its runs. Means and variances are all that is needed, so
that a database adds up what is compared. No other package is loaded: gateways do this.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from math import ceil, inf, sqrt
from statistics import NormalDist
from typing import Literal

import msgspec

from evals.verdict.comparisons import LEAST_CASES, LEVEL
from evals.verdict.paired_difference import rejected

LEAST = LEAST_CASES
"""Conversations of each version, for means to be compared: the intervals are those of large samples."""
_NORMAL = NormalDist()
_TWO_SIDED = _NORMAL.inv_cdf(0.975)
_POWER = _NORMAL.inv_cdf(0.8)
_MOST_NEEDED = 1_000_000

FigureState = Literal["worse", "better", "same", "undecided", "too_few"]
Decision = Literal["worse", "better", "same", "undecided"]
Slice = tuple[str, str]
"""A dimension and a value, such as `tools` and `get_order`; two empty texts are all conversations."""
ALL: Slice = ("", "")


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared of runs. `bounds` are the least and the greatest value, where there are such.
    `tolerated` is in its own unit, or without bounds a share of the mean before.
    """

    name: str
    higher_is_better: bool
    tolerated: float
    bounds: tuple[float, float] | None = None


FIGURES = (
    Figure(name="completed", higher_is_better=True, bounds=(0, 1), tolerated=0.05),
    Figure(name="rating", higher_is_better=True, bounds=(-1, 1), tolerated=0.1),
    Figure(name="tool_errors", higher_is_better=False, bounds=(0, 1), tolerated=0.05),
    Figure(name="seconds", higher_is_better=False, tolerated=0.1),
    Figure(name="tokens", higher_is_better=False, tolerated=0.1),
    Figure(name="cost", higher_is_better=False, tolerated=0.1),
)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Of the conversations of a version of which a figure is known: `variance` is that of their values."""

    count: int = 0
    mean: float = 0.0
    variance: float = 0.0


class VersionSample(msgspec.Struct, frozen=True, kw_only=True):
    """Of a version within a slice. A figure that is missing is not compared."""

    conversations: int
    figures: Mapping[str, Sample]


class FigureComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One figure, over all conversations (`dimension` is "") or over those of a slice.

    `difference` is after less before, between `low` and `high` with 95 % (None: too few are known to say).
    All are in the figure's unit: shares from 0 to 1, ratings from -1 to 1, seconds, tokens and cost of a run.
    `worse`: by more than is tolerated. `same`: not worse by more than that. `more` conversations of the later
    version would decide it, if the difference stays as it is; None: it is decided, or too many are needed.
    """

    figure: str
    dimension: str
    value: str
    state: FigureState
    before_count: int
    after_count: int
    before: float
    after: float
    difference: float
    low: float | None
    high: float | None
    tolerated: float
    more: int | None = None

    @property
    def title(self) -> str:
        return self.figure.replace("_", " ")

    @property
    def where(self) -> str:
        return f"{self.dimension} {self.value}" if self.dimension else "all conversations"

    @property
    def interval(self) -> str:
        """`-1.2% to +0.4%`, or nothing."""
        if self.low is None or self.high is None:
            return ""
        return f"{self.shown(self.low, '+')} to {self.shown(self.high, '+')}"

    def shown(self, value: float, sign: Literal["", "+"] = "") -> str:
        """A value of the figure, or with a sign a difference."""
        match self.figure:
            case "tokens":
                return f"{value:{sign},.0f}"
            case "cost":
                return f"{value:{sign}.4g}"
            case "rating" | "seconds":
                return f"{value:{sign}.2f}"
            case _:
                return f"{value:{sign}.1%}"


class VersionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """`worse`: a figure is, in all or in a slice. `undecided`: one of all conversations is. `better`: one is
    and none is worse. `same`: none is better or worse. `more` is that of the figure that needs most.
    """

    decision: Decision
    reasons: tuple[str, ...]
    comparisons: tuple[FigureComparison, ...]
    more: int | None


def compare_versions(
    before: Mapping[Slice, VersionSample], after: Mapping[Slice, VersionSample]
) -> VersionVerdict:
    """Over all conversations, then over the slices that both versions have."""
    shared = sorted(before.keys() & after.keys() - {ALL})
    found = [
        *_family([(ALL, before.get(ALL, _NOTHING), after.get(ALL, _NOTHING))]),
        *_family([(where, before[where], after[where]) for where in shared]),
    ]
    decision, deciding = _decided(found)
    return VersionVerdict(
        decision=decision,
        reasons=tuple(map(_reason, deciding)),
        comparisons=tuple(found),
        more=_most([each.more for each in deciding]) if decision == "undecided" else None,
    )


_NOTHING = VersionSample(conversations=0, figures={"completed": Sample()})


class _Difference(msgspec.Struct, frozen=True, kw_only=True):
    """After less before, in the good direction. `margin` is what it has above the tolerated drop, with its
    own error: where the drop is a share of the mean before, that mean varies too.
    """

    value: float
    error: float
    margin: float
    margin_error: float

    @property
    def p_worse(self) -> float:
        """The probability of such values where it is not worse than tolerated."""
        return _NORMAL.cdf(_in_errors(self.margin, self.margin_error))

    @property
    def p_better(self) -> float:
        return _NORMAL.cdf(-_in_errors(self.value, self.error))

    @property
    def is_no_worse(self) -> bool:
        is_certain = self.margin >= 0 and not self.margin_error
        return is_certain or _in_errors(self.margin, self.margin_error) >= _TWO_SIDED


def _family(
    samples: Iterable[tuple[Slice, VersionSample, VersionSample]],
) -> Iterator[FigureComparison]:
    """One family of comparisons, at half of LEVEL for what is worse, and as much for what is better."""
    compared = [
        (figure, where, before, after)
        for where, before, after in samples
        for figure in _figures(before.figures.keys() & after.figures.keys())
    ]
    found = {
        place: _difference(figure, before.figures[figure.name], after.figures[figure.name])
        for place, (figure, _, before, after) in enumerate(compared)
        if min(before.figures[figure.name].count, after.figures[figure.name].count) >= LEAST
    }
    worse = rejected({place: each.p_worse for place, each in found.items()}, LEVEL / 2)
    better = rejected({place: each.p_better for place, each in found.items()}, LEVEL / 2)
    for place, (figure, where, before, after) in enumerate(compared):
        difference = found.get(place)
        state: FigureState
        if difference is None:
            state = "too_few"
        elif place in worse:
            state = "worse"
        elif place in better:
            state = "better"
        else:
            state = "same" if difference.is_no_worse else "undecided"
        yield _comparison(figure, where, state, difference, before, after)


def _figures(names: Set[str]) -> Iterator[Figure]:
    return (each for each in FIGURES if each.name in names)


def _difference(figure: Figure, before: Sample, after: Sample) -> _Difference:
    sign = 1 if figure.higher_is_better else -1
    if figure.bounds is not None:
        before, after = _padded(before, figure.bounds), _padded(after, figure.bounds)
    value, error = sign * (after.mean - before.mean), _error(before, after)
    if figure.bounds is not None:
        return _Difference(value=value, error=error, margin=value + figure.tolerated, margin_error=error)
    times = 1 - sign * figure.tolerated
    return _Difference(
        value=value,
        error=error,
        margin=sign * (after.mean - times * before.mean),
        margin_error=_error(before, after, times),
    )


def _padded(sample: Sample, bounds: tuple[float, float]) -> Sample:
    """With one more value at each bound (Agresti and Caffo): a sample of which all completed does not show
    that all will.
    """
    low, high = bounds
    count = sample.count + 2
    mean = (sample.count * sample.mean + low + high) / count
    squares = (sample.count - 1) * sample.variance + sample.count * sample.mean**2 + low**2 + high**2
    return Sample(count=count, mean=mean, variance=squares / count - mean**2)


def _error(before: Sample, after: Sample, times: float = 1.0) -> float:
    """Of the mean after, less so many times the one before."""
    return sqrt(after.variance / after.count + times**2 * before.variance / before.count)


def _in_errors(value: float, error: float) -> float:
    return value / error if error else inf * value if value else 0.0


def _comparison(
    figure: Figure,
    where: Slice,
    state: FigureState,
    found: _Difference | None,
    before: VersionSample,
    after: VersionSample,
) -> FigureComparison:
    one, other = before.figures[figure.name], after.figures[figure.name]
    difference = other.mean - one.mean
    low = high = None
    if found is not None:
        middle = found.value if figure.higher_is_better else -found.value
        low = min(difference, middle - _TWO_SIDED * found.error)
        high = max(difference, middle + _TWO_SIDED * found.error)
    return FigureComparison(
        figure=figure.name,
        dimension=where[0],
        value=where[1],
        state=state,
        before_count=one.count,
        after_count=other.count,
        before=one.mean,
        after=other.mean,
        difference=difference,
        low=low,
        high=high,
        tolerated=figure.tolerated if figure.bounds is not None else figure.tolerated * one.mean,
        more=_needed(state, found, other, after.conversations),
    )


def _needed(state: FigureState, found: _Difference | None, sample: Sample, conversations: int) -> int | None:
    """Conversations in which the figure is not known are needed as often as so far."""
    if state == "too_few":
        missing: float = max(0, LEAST - sample.count)
    elif state == "undecided" and found is not None and found.margin:
        errors = _in_errors(found.margin, found.margin_error)
        missing = sample.count * (((_TWO_SIDED + _POWER) / errors) ** 2 - 1)
    else:
        return None
    needed = ceil(missing * conversations / sample.count) if sample.count else ceil(missing)
    return needed if 0 < needed <= _MOST_NEEDED else None


def _decided(found: list[FigureComparison]) -> tuple[Decision, list[FigureComparison]]:
    """And the comparisons that it follows from. Where a figure is rarely known, such as ratings, it decides
    nothing until it is known of enough conversations.
    """
    whole = [each for each in found if not each.dimension]
    if worse := [each for each in found if each.state == "worse"]:
        return "worse", worse
    unknown = ("undecided", "too_few")
    if waiting := [
        each
        for each in whole
        if each.state == "undecided" or (each.figure == "completed" and each.state in unknown)
    ]:
        return "undecided", waiting
    if better := [each for each in whole if each.state == "better"]:
        return "better", better
    return "same", []


def _most(needed: list[int | None]) -> int | None:
    """None where one of them is: then no number decides."""
    known = [each for each in needed if each is not None]
    return max(known) if known and len(known) == len(needed) else None


def _reason(each: FigureComparison) -> str:
    if each.state == "too_few":
        counts = f"{each.before_count:,} and {each.after_count:,} conversations"
        return f"{each.title} is known of {counts}, and {LEAST} of each version are needed"
    changed = {"worse": "worse", "better": "better"}.get(each.state, "undecided")
    return (
        f"{each.title} is {changed} in {each.where}: {each.shown(each.before)} to "
        f"{each.shown(each.after)}, 95 % interval of the difference {each.interval}"
    )
