"""Which evaluators an agent's configuration may have for its live runs, and what is refused, in words."""

from typing import Any

import pytest

from conversations.judged.judged_runs import is_in_share
from directory.live_judging import LiveJudging
from evals.judging.evaluator_registry import KINDS
from evals.judging.live_evaluators import UnfitEvaluator, live_evaluators
from evals.judging.live_scoring import live_scores
from tests.conversations.given import given as given_events
from tests.conversations.given import turn

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


async def test_all_others_judge_a_run_that_was_not_recorded() -> None:
    alone: list[tuple[dict[str, Any], bool]] = [
        ({"name": "equal", "text": "Your order was shipped yesterday."}, True),
        ({"name": "contains", "text": "shipped"}, True),
        ({"name": "not_contains", "text": "shipped"}, False),
        ({"name": "regex", "pattern": "refund"}, False),
        ({"name": "json_schema", "schema": {}}, False),
        ({"name": "language", "code": "en"}, True),
        ({"name": "length", "at_most": 9}, False),
        ({"name": "tool_calls", "recorded": "ignored", "forbidden": ["cancel"]}, True),
        ({"name": "sources", "cited": 1}, False),
        ({"name": "seconds", "at_most": 10_000}, True),
        ({"name": "tokens", "at_most": 0}, False),
    ]
    given = tuple(settings for settings, _ in alone)
    made = live_evaluators(LiveJudging(share=1, evaluators=(*given, _RUBRIC), tokens_per_day=1))[:-1]
    told = given_events(*turn("a", "Where is it?", "Your order was shipped yesterday."))
    (run,) = told.runs
    found = await live_scores(told, run, made)
    assert [(each.evaluator, each.passed) for each in found.known] == [
        ("completed", True),
        *((settings["name"], passed) for settings, passed in alone),
    ]
    of_a_recorded_run = {"cost", "overlap", "phrases", "facts", "pairwise"}
    assert {each["name"] for each in given} == KINDS.keys() - of_a_recorded_run - {"rubric"}


def test_a_share_is_of_the_runs_by_their_ids_and_a_larger_one_has_them_too() -> None:
    traces = [f"{number:032x}" for number in range(4000)]
    small = {each for each in traces if is_in_share(0.1, each)}
    assert small < {each for each in traces if is_in_share(0.3, each)}
    assert len(small) == pytest.approx(400, abs=60)
    assert all(is_in_share(1.0, each) for each in traces)
