"""The verdict on a run of a suite: what got worse, what was counted, and the exit code."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Annotated, Any, Literal

import msgspec

from evals.errors import UnfitSuite
from evals.judging.agreement import Agreement, agreement
from evals.judging.evaluator_registry import CHECK, COMPLETED
from evals.judging.judged_cases import JudgedCase, JudgedTry
from evals.judging.run_evaluator import RunEvaluator
from evals.suite import SETTINGS
from evals.verdict.comparisons import Judge, Pairs, ScoreComparison, compare, paired, tries_before
from experiments.comparison import known_total

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_WORST_FIRST = ("damaged", "erased", "diverged", "failed", "completed", "not_run")
_OF_CHECK = Judge(drop=RunEvaluator.tolerated_drop)

ExitCode = Literal[0, 1, 2]


class Threshold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of an evaluator: its mean may be lower than before by `drop`, but not below `at_least`."""

    drop: _Share | None = None
    at_least: _Share | None = None


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """`not_run`: the share of cases of which nothing may be known."""

    judges: Mapping[str, Judge]
    not_run: float = 0.05


class CaseCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of cases. Of several tries the worst counts of which anything is known.

    `could_not_judge`, `not_judged` and `raised` are cases in which a score is missing, `flaky` those that
    flip by themselves, `new` those that the other side has not.
    """

    cases: int
    completed: int = 0
    failed: int = 0
    diverged: int = 0
    not_run: int = 0
    damaged: int = 0
    erased: int = 0
    could_not_judge: int = 0
    not_judged: int = 0
    raised: int = 0
    flaky: int = 0
    new: int = 0


class CaseChange(msgspec.Struct, frozen=True, kw_only=True):
    """A case that is worse than before: by which evaluators, and what they said. `drop` is the sum of theirs.

    `lost`: it passed in every try before and in none after, by an evaluator that found the suite worse.
    `flaky`: it flips by itself, and nothing follows from it.
    """

    case_id: str
    slices: Mapping[str, str]
    outcome: str
    evaluators: tuple[str, ...]
    reasons: tuple[str, ...]
    drop: float
    lost: bool
    flaky: bool


class Took(msgspec.Struct, frozen=True, kw_only=True):
    """What the cases took that both sides have, on one side. `cost` is None where it is not known of each."""

    tokens: float
    cost: float | None
    seconds: float


class MissingScores(msgspec.Struct, frozen=True, kw_only=True):
    """Scores that are missing: by one evaluator, for one reason, of so many cases."""

    evaluator: str
    kind: str
    detail: str
    cases: int


class SuiteVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """`reasons` say why the exit code is not 0. `changes` are the cases that got worse, the worst first."""

    exit_code: ExitCode
    reasons: tuple[str, ...]
    against: Literal["recorded", "baseline"]
    counts: CaseCounts
    comparisons: tuple[ScoreComparison, ...]
    changes: tuple[CaseChange, ...]
    failures: tuple[MissingScores, ...]
    agreements: tuple[Agreement, ...]
    before: Took
    after: Took


def thresholds_of(settings: Mapping[str, Any], evaluators: Sequence[RunEvaluator]) -> Thresholds:
    """Of `suite.yaml`'s `thresholds`: `not_run`, and a Threshold for each evaluator. Raises UnfitSuite."""
    judges = {COMPLETED: _OF_CHECK}
    for each in evaluators:
        judges[each.evaluation_name] = Judge(drop=each.tolerated_drop, compares=each.compares)
    not_run = Thresholds.__struct_defaults__[0]
    for name, value in settings.items():
        try:
            if name == "not_run":
                not_run = msgspec.convert(value, _Share)
            elif name in judges or name.startswith(CHECK):
                given = msgspec.convert(value, Threshold)
                judge = judges.get(name, _OF_CHECK)
                drop = judge.drop if given.drop is None else given.drop
                judges[name] = msgspec.structs.replace(judge, drop=drop, at_least=given.at_least)
            else:
                known = ", ".join(["not_run", *judges])
                raise UnfitSuite(SETTINGS, f"thresholds: no evaluator is called {name!r}; there are {known}")
        except msgspec.ValidationError as error:
            raise UnfitSuite(SETTINGS, f"thresholds.{name}: {error}") from None
    return Thresholds(judges=judges, not_run=not_run)


def verdict(
    thresholds: Thresholds,
    cases: Sequence[JudgedCase],
    baseline: Mapping[str, JudgedCase] | None = None,
    *,
    asking: Sequence[str] = (),
) -> SuiteVerdict:
    """On the cases of a run; without a baseline they are compared with the recorded runs.

    `asking` are the evaluators that ask a model, whose agreement with people is computed.
    """
    judges = dict(thresholds.judges)
    scored = sorted({score.evaluator for each in cases for tried in each.again for score in tried.scores})
    for name in scored:
        judges.setdefault(name, _OF_CHECK)
    pairs = {name: paired(name, judge, cases, baseline) for name, judge in judges.items()}
    comparisons = compare(judges, pairs, cases)
    counts = _counts(cases, baseline, pairs)
    failures = _failures(cases)
    worse = [*_drops(comparisons), *_floors(judges, cases)]
    missing = [
        *_missing(thresholds.not_run, counts, cases, failures),
        *(_unscored(scored, pairs) if baseline is not None else ()),
    ]
    if not worse and not missing and not comparisons:
        missing = ["no case was compared"]
    regressed = {each.evaluator for each in comparisons if each.state == "regressed"}
    before, after = _took(cases, baseline)
    return SuiteVerdict(
        exit_code=1 if worse else 2 if missing else 0,
        reasons=(*worse, *missing),
        against="recorded" if baseline is None else "baseline",
        counts=counts,
        comparisons=tuple(comparisons),
        changes=tuple(_changes(cases, pairs, regressed)),
        failures=tuple(failures),
        agreements=tuple(agreement(name, cases) for name in asking),
        before=before,
        after=after,
    )


def _drops(comparisons: Iterable[ScoreComparison]) -> list[str]:
    return [
        f"{each.evaluator} fell from {each.found.before:.1%} to {each.found.after:.1%} in {each.where} "
        f"({each.found.count:,}): {each.found.difference:+.1%}, "
        f"95 % interval {each.found.low:+.1%} to {each.found.high:+.1%}"
        for each in comparisons
        if each.state == "regressed"
    ]


def _floors(judges: Mapping[str, Judge], cases: Sequence[JudgedCase]) -> Iterator[str]:
    for name, judge in judges.items():
        values = [
            sum(scores) / len(scores)
            for each in cases
            if (scores := [found.value for tried in each.again if (found := tried.score(name)) is not None])
        ]
        if judge.at_least is not None and values and (mean := sum(values) / len(values)) < judge.at_least:
            yield f"{name} is {mean:.1%}, and at least {judge.at_least:.1%} is asked for"


def _missing(
    allowed: float, counts: CaseCounts, cases: Sequence[JudgedCase], failures: Sequence[MissingScores]
) -> list[str]:
    """Why too little is known."""
    known_of = counts.cases - counts.erased
    unknown = counts.not_run + counts.damaged
    if known_of and unknown > allowed * known_of:
        return [
            f"nothing is known of {unknown:,} of {known_of:,} cases ({counts.not_run:,} not run, "
            f"{counts.damaged:,} damaged), and {allowed:.0%} is allowed"
        ]
    judged = sum(any(each.outcome == "completed" for each in case.again) for case in cases)
    unjudged = Counter[str]()
    for each in failures:
        unjudged[each.evaluator] += each.cases
    return [
        f"{name} has no score of {number:,} of {judged:,} cases, and {allowed:.0%} is allowed"
        for name, number in unjudged.items()
        if number > allowed * judged
    ]


def _unscored(scored: Iterable[str], pairs: Mapping[str, Pairs]) -> Iterator[str]:
    """Evaluators that the suite has got since its baseline was stored."""
    for name in scored:
        if not pairs[name].compared:
            yield f"the baseline has no scores by {name}; store it again"


def _counts(
    cases: Sequence[JudgedCase], baseline: Mapping[str, JudgedCase] | None, pairs: Mapping[str, Pairs]
) -> CaseCounts:
    outcomes = Counter(outcome_of(each) for each in cases)
    kinds = Counter[str](
        kind
        for each in cases
        for kind in {missing.kind for tried in each.again for missing in tried.unjudged}
    )
    flaky = {
        name
        for each in pairs.values()
        for name, pair in (*each.compared.items(), *each.apart.items())
        if pair.flaky
    }
    return CaseCounts(
        cases=len(cases),
        **{str(name): number for name, number in (outcomes + kinds).items()},
        flaky=len(flaky),
        new=0 if baseline is None else sum(each.case_id not in baseline for each in cases),
    )


def outcome_of(case: JudgedCase) -> str:
    """Of the worst try of which anything is known."""
    outcomes = {each.outcome for each in case.again}
    return next((each for each in _WORST_FIRST if each in outcomes), "not_run")


def _failures(cases: Iterable[JudgedCase]) -> list[MissingScores]:
    """The most frequent first."""
    found = Counter(
        each
        for case in cases
        for each in {
            (missing.evaluator, missing.kind, missing.detail)
            for tried in case.again
            for missing in tried.unjudged
        }
    )
    return [
        MissingScores(evaluator=evaluator, kind=kind, detail=detail, cases=number)
        for (evaluator, kind, detail), number in found.most_common()
    ]


def _changes(
    cases: Iterable[JudgedCase], pairs: Mapping[str, Pairs], regressed: Set[str]
) -> list[CaseChange]:
    changes = [change for each in cases if (change := _change(each, pairs, regressed)) is not None]
    return sorted(changes, key=lambda each: (not each.lost, each.flaky, -each.drop, each.case_id))


def _change(case: JudgedCase, pairs: Mapping[str, Pairs], regressed: Set[str]) -> CaseChange | None:
    found = {
        name: pair
        for name, each in pairs.items()
        if (pair := each.compared.get(case.case_id) or each.apart.get(case.case_id)) is not None
        and pair.after < pair.before
    }
    if not found:
        return None
    reasons = {
        name: score.reason
        for tried in case.again
        for name in found
        if (score := tried.score(name)) is not None and score.reason
    }
    return CaseChange(
        case_id=case.case_id,
        slices=case.slices,
        outcome=outcome_of(case),
        evaluators=tuple(found),
        reasons=tuple(f"{name}: {reason}" for name, reason in reasons.items()),
        drop=sum(each.before - each.after for each in found.values()),
        lost=any(each.lost and name in regressed for name, each in found.items()),
        flaky=all(each.flaky for each in found.values()),
    )


def _took(cases: Iterable[JudgedCase], baseline: Mapping[str, JudgedCase] | None) -> tuple[Took, Took]:
    before, after = [], []
    for case in cases:
        earlier, later = _mean(tries_before(case, baseline)), _mean(case.again)
        if earlier is not None and later is not None:
            before.append(earlier)
            after.append(later)
    return _sum(before), _sum(after)


def _mean(tries: Sequence[JudgedTry]) -> Took | None:
    figures = [each.figures for each in tries if each.figures is not None]
    if not figures:
        return None
    cost = known_total([each.cost for each in figures])
    return Took(
        tokens=sum(each.tokens for each in figures) / len(figures),
        cost=None if cost is None else cost / len(figures),
        seconds=sum(each.seconds for each in figures) / len(figures),
    )


def _sum(taken: Sequence[Took]) -> Took:
    return Took(
        tokens=sum(each.tokens for each in taken),
        cost=known_total([each.cost for each in taken]),
        seconds=sum(each.seconds for each in taken),
    )
