"""Every evaluator compared, over the whole suite and over each of its slices, with all cases paired."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from evals.judging.judged_cases import JudgedCase, JudgedTry
from evals.verdict.paired_difference import PairedDifference, least_cases, paired_difference, rejected

LEVEL = 0.05
"""How often a suite in which nothing has got worse may be found worse: half of it for the comparisons over
all cases, half for those over slices."""
LEAST_CASES = 30
"""Of a suite, for chance to be told from a drop. In a smaller one each drop counts that is not tolerated."""
_SEVERAL = ("tools",)
"""Slices of which a case can have several, separated by commas."""

State = Literal["regressed", "improved", "same", "too_small"]
Slice = tuple[str, str]
_ALL: Slice = ("", "")


class Judge(msgspec.Struct, frozen=True, kw_only=True):
    """How an evaluator's scores are compared: its mean may be lower than before by `drop`, and is `at_least`
    so high. `compares`: with the recorded run.
    """

    drop: float
    at_least: float | None = None
    compares: bool = False


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A case's values by one evaluator, which are means over its tries.

    `flaky`: it passed in some and not in others, on one of the two sides. `lost`: it passed in every try
    before, and in none after.
    """

    before: float
    after: float
    flaky: bool
    lost: bool


class ScoreComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Of one evaluator, over all cases (`dimension` is "") or over those of a slice, such as `tools` and
    `get_order`.

    `apart` is the number of flaky cases that it leaves out.
    """

    evaluator: str
    dimension: str
    value: str
    state: State
    found: PairedDifference
    tolerated: float
    apart: int = 0

    @property
    def where(self) -> str:
        return f"{self.dimension} {self.value}" if self.dimension else "all cases"


class Pairs(msgspec.Struct, frozen=True, kw_only=True):
    """By one evaluator: those that are compared, by case, and those that are left apart since they flip by
    themselves. Where the other side is the recorded run by definition, nothing shows how often it would.
    """

    compared: Mapping[str, Pair]
    apart: Mapping[str, Pair]


def paired(
    evaluator: str, judge: Judge, cases: Iterable[JudgedCase], baseline: Mapping[str, JudgedCase] | None
) -> Pairs:
    """Every case that has a score on both sides; the one before is the baseline's, or the recorded run's."""
    compared: dict[str, Pair] = {}
    apart: dict[str, Pair] = {}
    for case in cases:
        pair = _pair(evaluator, tries_before(case, baseline), case.again)
        if pair is not None:
            is_apart = pair.flaky and judge.compares and baseline is None
            (apart if is_apart else compared)[case.case_id] = pair
    return Pairs(compared=compared, apart=apart)


def tries_before(case: JudgedCase, baseline: Mapping[str, JudgedCase] | None) -> Sequence[JudgedTry]:
    if baseline is None:
        return () if case.recorded is None else (case.recorded,)
    return baseline[case.case_id].again if case.case_id in baseline else ()


def compare(
    judges: Mapping[str, Judge], pairs: Mapping[str, Pairs], cases: Iterable[JudgedCase]
) -> list[ScoreComparison]:
    """Over all cases in the order of `judges`, then over slices."""
    whole = _compared(judges, [(name, _ALL, each) for name, each in pairs.items()])
    members = slices_of(cases)
    sliced = [
        (name, where, _within(each, members[where]))
        for where in sorted(members)
        for name, each in pairs.items()
    ]
    return [*whole, *_compared(judges, [each for each in sliced if each[2].compared])]


def slices_of(cases: Iterable[JudgedCase]) -> dict[Slice, set[str]]:
    """The ids of the cases of each slice; one that has all of them is none."""
    members: dict[Slice, set[str]] = defaultdict(set)
    count = 0
    for case in cases:
        count += 1
        for dimension, value in case.slices.items():
            for each in value.split(",") if dimension in _SEVERAL else (value,):
                members[dimension, each.strip()].add(case.case_id)
    return {where: ids for where, ids in members.items() if len(ids) < count}


def _compared(
    judges: Mapping[str, Judge], families: Sequence[tuple[str, Slice, Pairs]]
) -> Iterator[ScoreComparison]:
    """One family of comparisons, at half of LEVEL."""
    level = LEVEL / 2
    families = [each for each in families if each[2].compared]
    least = least_cases([len(pairs.compared) for _, _, pairs in families], level)
    found = [
        paired_difference(
            [each.before for each in pairs.compared.values()],
            [each.after for each in pairs.compared.values()],
            judges[name].drop,
        )
        for name, _, pairs in families
    ]
    large = {place: each.p for place, each in enumerate(found) if each.count >= least}
    dropped = rejected(large, level)
    for place, ((name, where, pairs), each) in enumerate(zip(families, found, strict=True)):
        state: State = "same"
        is_small_suite = where == _ALL and each.count < LEAST_CASES
        if place in dropped or (is_small_suite and each.difference < -judges[name].drop):
            state = "regressed"
        elif place not in large:
            state = "too_small"
        elif each.low > 0:
            state = "improved"
        yield ScoreComparison(
            evaluator=name,
            dimension=where[0],
            value=where[1],
            state=state,
            found=each,
            tolerated=judges[name].drop,
            apart=len(pairs.apart),
        )


def _within(pairs: Pairs, ids: set[str]) -> Pairs:
    return Pairs(
        compared={name: each for name, each in pairs.compared.items() if name in ids},
        apart={name: each for name, each in pairs.apart.items() if name in ids},
    )


def _pair(evaluator: str, before: Sequence[JudgedTry], after: Sequence[JudgedTry]) -> Pair | None:
    sides = [
        [score for each in tries if (score := each.score(evaluator)) is not None] for tries in (before, after)
    ]
    if not all(sides):
        return None
    passed = [{score.passed for score in side} for side in sides]
    means = [sum(score.value for score in side) / len(side) for side in sides]
    return Pair(
        before=means[0],
        after=means[1],
        flaky=any(len(each) > 1 for each in passed),
        lost=passed == [{True}, {False}],
    )
