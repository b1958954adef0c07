"""Which evaluators an agent's configuration may have for its live runs, and what is refused, in words."""

from typing import Any

import pytest

from conversations.judged.judged_runs import is_in_share
from directory.live_judging import LiveJudging
from evals.judging.live_evaluators import UnfitEvaluator, live_evaluators

pytestmark = pytest.mark.requirement("EVAL-LIVE")

_RUBRIC = {"name": "rubric", "rubric": "It is polite."}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"name": "contain"}, "evaluators[0]: no evaluator is called 'contain'; there are contains, cost"),
        ({"name": "regex", "pattern": "("}, "evaluators[0]: regex: `pattern` is not a regular expression"),
        (
            {"name": "language"},
            "evaluators[0]: language compares with a recorded run, and a live run has",
        ),
        ({"name": "length", "at_most_times": 2}, "none; give it `at_least or at_most`"),
        ({"name": "phrases"}, "evaluators[0]: phrases compares with a recorded run"),
        ({"name": "pairwise"}, "evaluators[0]: pairwise compares with a recorded run"),
        ({"name": "cost", "at_most": 1}, "evaluators[0]: cost needs prices"),
        (_RUBRIC, "tokens_per_day: is needed: rubric asks a model, which costs"),
    ],
)
def test_what_a_live_run_cannot_be_judged_by_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(UnfitEvaluator) as refused:
        live_evaluators(LiveJudging(share=1, evaluators=(given,)))
    assert problem in f"{refused.value.field}: {refused.value}"


def test_evaluators_that_need_no_recorded_run_are_taken() -> None:
    alone: list[dict[str, Any]] = [
        {"name": "language", "code": "en"},
        {"name": "length", "at_most": 9},
        {"name": "tool_calls", "recorded": "ignored", "forbidden": ["cancel"]},
        {"name": "sources", "cited": 1},
        {"name": "tokens", "at_most": 10_000},
        _RUBRIC,
    ]
    made = live_evaluators(LiveJudging(share=1, evaluators=tuple(alone), tokens_per_day=1))
    assert [each.evaluation_name for each in made] == [each["name"] for each in alone]


def test_a_share_is_of_the_runs_by_their_ids_and_a_larger_one_has_them_too() -> None:
    traces = [f"{number:032x}" for number in range(4000)]
    small = {each for each in traces if is_in_share(0.1, each)}
    assert small < {each for each in traces if is_in_share(0.3, each)}
    assert len(small) == pytest.approx(400, abs=60)
    assert all(is_in_share(1.0, each) for each in traces)
