"""Decide what got worse in a run of a suite, what is unknown, and the exit code."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from agentchat.contracts.text_checks import format_count
from agentchat.evals.case_results import CaseResult
from agentchat.evals.statistics import LEAST, Difference, State, compare_paired, decide_states
from agentchat.evals.suite import SuiteSettings

_SEVERAL = ("tools",)
"""Slices of which a case can have several values, separated by commas."""

ExitCode = Literal[0, 1, 2]
Slice = tuple[str, str]
_ALL: Slice = ("", "")


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator's values over all cases (`dimension` is "") or over a slice, such as `tools get_order`."""

    evaluator: str
    dimension: str
    value: str
    state: State
    found: Difference

    @property
    def where(self) -> str:
        """The slice, or "all cases"."""
        return f"{self.dimension} {self.value}" if self.dimension else "all cases"

    @property
    def interval(self) -> str:
        """The 95 % interval as `-1.2% to +0.4%`, or ""."""
        if self.found.low is None or self.found.high is None:
            return ""
        return f"{self.found.low:+.1%} to {self.found.high:+.1%}"


class CaseChange(msgspec.Struct, frozen=True, kw_only=True):
    """A case that got worse: by which evaluators, and their reasons. `drop` is the sum.

    `counts`: at least one of them found the suite worse.
    """

    case_id: str
    evaluators: tuple[str, ...]
    reasons: tuple[str, ...]
    drop: float
    counts: bool


class SuiteVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict. `exit_code` 1: something is worse. 2: too little is known.

    `changes` begin with the worst.
    """

    exit_code: ExitCode
    reasons: tuple[str, ...]
    against: str
    outcomes: Mapping[str, int]
    comparisons: tuple[Comparison, ...]
    changes: tuple[CaseChange, ...]
    failures: tuple[str, ...]

    @property
    def shown(self) -> list[Comparison]:
        """All comparisons over the whole suite, and those of slices that got worse."""
        return [each for each in self.comparisons if not each.dimension or each.state == "worse"]

    @property
    def counted(self) -> str:
        """A summary: `200 cases against the recorded runs: 198 completed, 2 diverged`."""
        counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in self.outcomes.items())
        cases = format_count(sum(self.outcomes.values()), "case")
        return f"{cases} against {self.against}: {counts or 'nothing was run'}"


def decide_verdict(
    settings: SuiteSettings, results: Sequence[CaseResult], baseline: Sequence[CaseResult] | None = None
) -> SuiteVerdict:
    """Compare the cases of a run with their recorded runs, or with an earlier run's results."""
    earlier = None if baseline is None else {each.case_id: each.after for each in baseline}
    pairs = {
        each.case_id: (each.before if earlier is None else earlier.get(each.case_id, {}), each.after)
        for each in results
    }
    names = sorted({name for before, after in pairs.values() for name in before.keys() & after.keys()})
    members = _group_slices(results)
    whole = [(name, _ALL, set(pairs)) for name in names]
    sliced = [(name, where, members[where]) for where in sorted(members) for name in names]
    comparisons = [*_compare_family(settings, whole, pairs), *_compare_family(settings, sliced, pairs)]
    worse = [
        *(_describe_drop(each) for each in comparisons if each.state == "worse"),
        *_list_below_minimum(settings, names, results),
    ]
    missing = list(_list_missing(settings, results))
    if not comparisons:
        missing.append("no case could be compared")
    found_worse = {each.evaluator for each in comparisons if each.state == "worse"}
    return SuiteVerdict(
        exit_code=1 if worse else 2 if missing else 0,
        reasons=(*worse, *missing),
        against="the recorded runs" if baseline is None else "the baseline",
        outcomes=Counter(each.outcome for each in results),
        comparisons=tuple(comparisons),
        changes=tuple(_list_changes(results, pairs, found_worse)),
        failures=tuple(_list_failures(results)),
    )


_Pairs = Mapping[str, tuple[Mapping[str, float], Mapping[str, float]]]


def _compare_family(
    settings: SuiteSettings, family: Iterable[tuple[str, Slice, set[str]]], pairs: _Pairs
) -> list[Comparison]:
    """Decide one family of comparisons.

    In a suite of fewer than LEAST cases chance cannot be told from a drop, so each drop over all cases counts
    that exceeds the tolerance.
    """
    places, found = [], []
    for name, where, ids in family:
        both = [pairs[each] for each in ids if all(name in side for side in pairs[each])]
        if both:
            places.append((name, where))
            values = [before[name] for before, _ in both], [after[name] for _, after in both]
            found.append(compare_paired(*values, settings.get_threshold(name).drop))
    decided = decide_states(found)
    return [
        Comparison(
            evaluator=name,
            dimension=where[0],
            value=where[1],
            state="worse" if where == _ALL and each.count < LEAST and each.value < -each.tolerated else state,
            found=each,
        )
        for (name, where), each, state in zip(places, found, decided, strict=True)
    ]


def _group_slices(results: Iterable[CaseResult]) -> dict[Slice, set[str]]:
    """Return the cases of each slice, leaving out slices that have all cases."""
    members: dict[Slice, set[str]] = defaultdict(set)
    every = set()
    for each in results:
        every.add(each.case_id)
        for dimension, value in each.slices.items():
            for part in value.split(",") if dimension in _SEVERAL else (value,):
                members[dimension, part.strip()].add(each.case_id)
    return {where: ids for where, ids in members.items() if len(ids) < len(every)}


def _describe_drop(each: Comparison) -> str:
    interval = f", 95 % interval {each.interval}" if each.interval else ""
    return (
        f"{each.evaluator} fell from {each.found.before:.1%} to {each.found.after:.1%} in {each.where} "
        f"({format_count(each.found.count, 'case')}{interval})"
    )


def _list_below_minimum(
    settings: SuiteSettings, names: Iterable[str], results: Sequence[CaseResult]
) -> Iterable[str]:
    for name in names:
        least = settings.get_threshold(name).at_least
        values = [each.after[name] for each in results if name in each.after]
        if least is not None and values and sum(values) / len(values) < least:
            yield f"{name} is {sum(values) / len(values):.1%}, below the required {least:.1%}"


def _list_missing(settings: SuiteSettings, results: Sequence[CaseResult]) -> Iterable[str]:
    """Report results that are missing for too many cases; erased cases are not missing."""
    asked = [each for each in results if each.outcome != "erased"]
    not_run = [each for each in asked if each.outcome == "not_run"]
    if len(not_run) > settings.not_run * len(asked):
        yield f"{len(not_run):,} of {len(asked):,} cases were not run: {not_run[0].detail}"
    unjudged = Counter(name for each in asked for name in each.failures)
    for name, count in unjudged.items():
        if count > settings.not_run * len(asked):
            yield f"{name} could not judge {count:,} of {len(asked):,} cases"


def _list_changes(results: Iterable[CaseResult], pairs: _Pairs, found_worse: set[str]) -> list[CaseChange]:
    found = []
    for each in results:
        before, after = pairs[each.case_id]
        drops = {name: before[name] - after[name] for name in before.keys() & after.keys()}
        names = [name for name in sorted(drops) if drops[name] > 0]
        if names:
            found.append(
                CaseChange(
                    case_id=each.case_id,
                    evaluators=tuple(names),
                    reasons=tuple(f"{name}: {each.reasons.get(name, 'lower')}" for name in names),
                    drop=sum(drops[name] for name in names),
                    counts=bool(found_worse.intersection(names)),
                )
            )
    return sorted(found, key=lambda each: (not each.counts, -each.drop, each.case_id))


def _list_failures(results: Iterable[CaseResult]) -> list[str]:
    counts = Counter((name, detail) for each in results for name, detail in each.failures.items())
    return [
        f"{name} could not judge {format_count(count, 'case')}: {detail}"
        for (name, detail), count in counts.items()
    ]
