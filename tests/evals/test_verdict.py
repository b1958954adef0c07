"""The verdict: what the defaults find and leave, slices, flaky cases, what is missing, and the exit code."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from evals.errors import UnfitSuite
from evals.judging.evaluator_registry import evaluators_of
from evals.judging.judged_cases import RECORDED, JudgedCase, JudgedTry, Score, Unjudged
from evals.results import CaseOutcome
from evals.verdict.verdict import SuiteVerdict, thresholds_of, verdict
from tests.evals.done_again import judged
from tests.evals.shop_replies import Shop

_DEFAULTS = thresholds_of({}, evaluators_of(()))
_SHOP = Shop(200)


async def _by_defaults(seed: int, **planted: bool) -> SuiteVerdict:
    return verdict(_DEFAULTS, await judged(_SHOP.done(seed, **planted)))


@pytest.mark.parametrize(
    ("planted", "evaluator"),
    [("forgets_rule", "phrases"), ("drops_argument", "tool_calls"), ("in_english", "language")],
)
async def test_the_defaults_find_a_planted_regression_and_name_it(planted: str, evaluator: str) -> None:
    found = await _by_defaults(1, **{planted: True})
    assert found.exit_code == 1
    whole = {each.evaluator: each.state for each in found.comparisons if not each.dimension}
    assert whole[evaluator] == "regressed"
    assert found.reasons[0].startswith(tuple(name for name, state in whole.items() if state == "regressed"))
    assert found.changes[0].lost
    assert evaluator in found.changes[0].evaluators


@pytest.mark.parametrize("seed", range(1, 5))
async def test_the_defaults_leave_a_harmless_rewording(seed: int) -> None:
    found = await _by_defaults(seed)
    assert (found.exit_code, found.reasons) == (0, ())
    assert found.changes  # some replies lose something, as a model's do


def _case(
    case_id: str,
    before: Sequence[float],
    after: Sequence[float],
    *,
    slices: Mapping[str, str] | None = None,
    outcome: CaseOutcome = "completed",
) -> JudgedCase:
    """Values of one evaluator, `equal`: of the recorded run and of each try. A case that is not completed
    has none.
    """

    def tried(attempt: int, value: float) -> JudgedTry:
        score = Score(evaluator="equal", value=value, passed=value >= 1, reason="why")
        is_done = outcome == "completed" or attempt == RECORDED
        return JudgedTry(
            attempt=attempt, outcome=outcome if attempt else "completed", scores=(score,) if is_done else ()
        )

    tries = [
        *(tried(RECORDED, each) for each in before),
        *(tried(i + 1, each) for i, each in enumerate(after)),
    ]
    return JudgedCase(case_id=case_id, slices=slices or {}, tries=tuple(tries))


def _cases(count: int, make: Callable[[int], JudgedCase]) -> list[JudgedCase]:
    return [make(number) for number in range(count)]


_EQUAL = thresholds_of({}, evaluators_of([{"name": "equal"}]))


def _state(found: SuiteVerdict, dimension: str = "", value: str = "") -> str:
    return next(
        each.state
        for each in found.comparisons
        if (each.evaluator, each.dimension, each.value) == ("equal", dimension, value)
    )


def test_a_mean_hides_no_broken_slice() -> None:
    """12 of 400 cases are of the tool, and all of them are lost; 30 others got better."""
    cases = _cases(
        400,
        lambda number: _case(
            f"{number:03}",
            [0.0 if 100 <= number < 130 else 1.0],
            [0.0 if number < 12 else 1.0],
            slices={"tools": "find,refund" if number < 12 else "find", "language": "en"},
        ),
    )
    found = verdict(_EQUAL, cases)
    assert found.exit_code == 1
    assert (_state(found), _state(found, "tools", "refund")) == ("improved", "regressed")
    assert [each.where for each in found.comparisons] == ["all cases", "tools refund"]  # the others have all
    assert found.reasons == (
        "equal fell from 100.0% to 0.0% in tools refund (12): -100.0%, 95 % interval -100.0% to -47.1%",
    )


def test_a_small_slice_is_said_to_be_too_small() -> None:
    cases = _cases(
        100,
        lambda number: _case(
            str(number), [1.0], [float(number > 2)], slices={"language": "de" if number < 3 else "en"}
        ),
    )
    found = verdict(_EQUAL, cases)
    assert found.exit_code == 0
    assert (_state(found, "language", "de"), _state(found, "language", "en")) == ("too_small", "same")


@pytest.mark.parametrize("count", [1, 5, 29])
def test_in_a_suite_too_small_for_statistics_each_drop_counts(count: int) -> None:
    cases = _cases(count, lambda number: _case(str(number), [1.0], [float(number >= 2)]))
    assert verdict(_EQUAL, cases).exit_code == 1
    same = _cases(count, lambda number: _case(str(number), [1.0], [1.0]))
    assert verdict(_EQUAL, same).exit_code == 0


def test_many_slices_in_which_nothing_changed_are_no_regression() -> None:
    """Each of 40 slices of 10 has a case that got worse, and one that got better."""
    cases = _cases(
        400,
        lambda number: _case(
            str(number),
            [float(number % 10 != 1)],
            [float(number % 10 != 2)],
            slices={"tools": str(number // 10)},
        ),
    )
    assert verdict(_EQUAL, cases).exit_code == 0


def test_a_case_that_flips_by_itself_is_no_regression() -> None:
    flaky = _cases(
        100, lambda number: _case(str(number), [1.0], [1.0, 0.0, 0.0] if number < 30 else [1.0] * 3)
    )
    lost = _cases(100, lambda number: _case(str(number), [1.0], [0.0] * 3 if number < 30 else [1.0] * 3))
    found = verdict(_EQUAL, flaky)
    assert (found.exit_code, found.counts.flaky) == (0, 30)
    assert found.comparisons[0].apart == 30
    assert all(each.flaky and not each.lost for each in found.changes)
    found = verdict(_EQUAL, lost)
    assert (found.exit_code, found.counts.flaky) == (1, 0)


def test_a_baseline_that_flips_as_often_is_no_regression_and_one_that_does_not_is() -> None:
    flips = _cases(100, lambda number: _case(str(number), [1.0], [1.0, float(number >= 40)]))
    flips_too = _cases(100, lambda number: _case(str(number), [1.0], [float(number >= 40), 1.0]))
    steady = _cases(100, lambda number: _case(str(number), [1.0], [1.0, 1.0]))
    baselines = [{each.case_id: each for each in cases} for cases in (flips_too, steady)]
    found = [verdict(_EQUAL, flips, each) for each in baselines]
    assert [each.exit_code for each in found] == [0, 1]
    assert [each.against for each in found] == ["baseline"] * 2
    assert verdict(_EQUAL, [*flips, _case("new", [1.0], [1.0])], baselines[0]).counts.new == 1


def test_a_baseline_without_scores_of_an_evaluator_is_no_measure() -> None:
    baseline = {"0": JudgedCase(case_id="0", tries=(JudgedTry(attempt=1, outcome="completed"),))}
    found = verdict(_EQUAL, [_case("0", [1.0], [1.0])], baseline)
    assert (found.exit_code, found.reasons) == (
        2,
        ("the baseline has no scores by equal; store it again",),
    )


@pytest.mark.parametrize(("share", "code"), [(0.05, 0), (0.06, 2), (1.0, 2)])
@pytest.mark.parametrize("outcome", ["not_run", "damaged"])
def test_with_too_little_known_there_is_no_verdict(outcome: CaseOutcome, share: float, code: int) -> None:
    cases = _cases(
        100,
        lambda number: _case(
            str(number), [1.0], [1.0], outcome=outcome if number < 100 * share else "completed"
        ),
    )
    found = verdict(_EQUAL, cases)
    assert found.exit_code == code
    assert getattr(found.counts, outcome) == 100 * share


def test_erased_cases_are_not_missing_and_a_regression_is_said_before_what_is_missing() -> None:
    def outcome(number: int) -> CaseOutcome:
        return "erased" if number < 50 else "not_run" if number < 75 else "completed"

    cases = _cases(100, lambda number: _case(str(number), [1.0], [0.0], outcome=outcome(number)))
    found = verdict(_EQUAL, cases)
    assert found.exit_code == 1
    assert (found.counts.erased, found.counts.not_run, found.counts.completed) == (50, 25, 25)
    assert found.reasons[1] == "nothing is known of 25 of 50 cases (25 not run, 0 damaged), and 5% is allowed"
    assert verdict(_EQUAL, []).exit_code == 2
    assert verdict(_EQUAL, []).reasons == ("no case was compared",)


def test_what_could_not_be_judged_is_counted_apart_and_too_much_of_it_is_no_verdict() -> None:
    def case(number: int) -> JudgedCase:
        missing = Unjudged(evaluator="rubric", kind="raised" if number else "could_not_judge", detail="oh")
        found = _case(str(number), [1.0], [1.0])
        if number >= lacking:
            return found
        tried = JudgedTry(attempt=1, outcome="completed", scores=found.again[0].scores, unjudged=(missing,))
        return JudgedCase(case_id=found.case_id, tries=(found.tries[0], tried))

    lacking = 5
    found = verdict(_EQUAL, _cases(100, case))
    assert (found.exit_code, found.counts.could_not_judge, found.counts.raised) == (0, 1, 4)
    lacking = 6
    found = verdict(_EQUAL, _cases(100, case))
    assert found.reasons == ("rubric has no score of 6 of 100 cases, and 5% is allowed",)
    assert [(each.detail, each.cases) for each in found.failures] == [("oh", 5), ("oh", 1)]
    assert found.exit_code == 2


def test_failed_and_diverged_cases_are_a_regression_of_completing() -> None:
    def case(number: int) -> JudgedCase:
        outcome: CaseOutcome = "diverged" if number < 20 else "failed" if number < 30 else "completed"
        done = outcome == "completed"
        tries = [
            JudgedTry(
                attempt=attempt,
                outcome=outcome if attempt else "completed",
                scores=(
                    Score(evaluator="completed", value=ok, passed=bool(ok), reason="" if ok else outcome),
                ),
            )
            for attempt, ok in ((RECORDED, 1), (1, float(done)))
        ]
        return JudgedCase(case_id=f"{number:02}", tries=tuple(tries))

    found = verdict(_EQUAL, _cases(100, case))
    assert found.exit_code == 1
    assert found.reasons[0].startswith("completed fell from 100.0% to 70.0% in all cases (100)")
    assert (found.counts.diverged, found.counts.failed) == (20, 10)
    assert found.changes[0].reasons == ("completed: diverged",)


def test_a_suite_has_thresholds_of_its_own() -> None:
    cases = _cases(200, lambda number: _case(str(number), [1.0], [float(number >= 40)]))
    evaluators = evaluators_of([{"name": "equal"}])

    def code(settings: dict[str, Any]) -> int:
        return verdict(thresholds_of(settings, evaluators), cases).exit_code

    assert code({"equal": {"drop": 0.1}}) == 1
    assert code({"equal": {"drop": 0.3}}) == 0
    assert code({"equal": {"drop": 0.3, "at_least": 0.81}}) == 1
    found = verdict(thresholds_of({"equal": {"drop": 0.3, "at_least": 0.81}}, evaluators), cases)
    assert found.reasons == ("equal is 80.0%, and at least 81.0% is asked for",)
    assert thresholds_of({"not_run": 0.5, "check: contains": {"at_least": 1}}, evaluators).not_run == 0.5


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"equals": {}}, "thresholds: no evaluator is called 'equals'; there are not_run, completed, equal"),
        ({"equal": {"drop": 2}}, "thresholds.equal: Expected `float` <= 1.0"),
        ({"equal": {"fall": 1}}, "thresholds.equal: Object contains unknown field `fall`"),
        ({"not_run": "half"}, "thresholds.not_run: Expected `float`"),
    ],
)
def test_thresholds_that_fit_nothing_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnfitSuite) as refused:
        thresholds_of(settings, evaluators_of([{"name": "equal"}]))
    assert reason in str(refused.value)
