"""The evaluators that need no model: what passes each, and what does not."""

from typing import Any

import pytest

from contracts.replay_messages import AskedTool
from evals.errors import UnfitSuite
from evals.judging.evaluator_registry import KINDS, evaluators_of
from tests.evals.done_again import call, case, judged, result

_ORDER = call("get_order", order_id="ORD-1")
_SEARCH = call("search", query="warm winter boots")
_GERMAN, _ENGLISH = "Ihre Bestellung wurde gestern versandt.", "Your order was shipped yesterday."


@pytest.mark.parametrize(
    ("settings", "given", "value"),
    [
        ({"name": "equal"}, {"after": "Sent. ", "before": "Sent."}, 1),
        ({"name": "equal"}, {"after": "Sent!", "before": "Sent."}, 0),
        ({"name": "equal", "text": "SENT", "ignore_case": True}, {"after": "sent"}, 1),
        ({"name": "contains", "text": "order"}, {"after": "Your ORDER"}, 1),
        ({"name": "contains", "texts": ["order", "thanks"]}, {"after": "Your order"}, 0),
        ({"name": "contains", "text": "order", "ignore_case": False}, {"after": "Your ORDER"}, 0),
        ({"name": "not_contains", "text": "refund"}, {"after": "A Refund"}, 0),
        ({"name": "not_contains", "text": "refund"}, {"after": "Sent"}, 1),
        ({"name": "regex", "pattern": r"ORD-\d+"}, {"after": "ORD-12"}, 1),
        ({"name": "regex", "pattern": r"ORD-\d+", "absent": True}, {"after": "ORD-12"}, 0),
        ({"name": "json_schema", "schema": {"required": ["a"]}}, {"after": '{"a": 1}'}, 1),
        ({"name": "json_schema", "schema": {"required": ["a"]}}, {"after": '{"b": 1}'}, 0),
        ({"name": "json_schema", "schema": {}}, {"after": "no JSON"}, 0),
        ({"name": "language"}, {"after": _ENGLISH, "before": _GERMAN}, 0),
        ({"name": "language"}, {"after": "ORD-1: 24", "before": _GERMAN}, 1),
        ({"name": "language", "code": "de"}, {"after": _GERMAN, "before": _ENGLISH}, 1),
        ({"name": "length", "at_most": 5}, {"after": "123456"}, 0),
        ({"name": "length", "at_least": 5, "at_most": 6}, {"after": "123456"}, 1),
        ({"name": "length", "at_most_times": 2}, {"after": "12345", "before": "12"}, 0),
        ({"name": "length", "at_least_times": 0.5}, {"after": "1", "before": "12"}, 1),
        ({"name": "overlap"}, {"after": "a b c", "before": "c b a"}, 1),
        ({"name": "facts"}, {"after": "On 3 May [1].", "before": "ORD-12, 3.50 [2]"}, 1 / 3),
        ({"name": "facts"}, {"after": "In 2 days: ORD-12", "before": "1. ORD-12\n2. no number"}, 1),
        ({"name": "overlap", "at_least": 0.9}, {"after": "a b c", "before": "a b d"}, 0),
        ({"name": "sources"}, {"after": "So [1].", "before": "So [2]."}, 1),
        ({"name": "sources"}, {"after": "So.", "before": "So [2]."}, 0),
        ({"name": "sources"}, {"after": "So [7].", "before": "So [2]."}, 0),
        ({"name": "sources", "cited": "same"}, {"after": "So [1].", "before": "So [2]."}, 0),
        ({"name": "sources", "cited": 2}, {"after": "So [1] [2].", "before": "So."}, 1),
        ({"name": "cost", "at_most": 1.5}, {}, 0),
        ({"name": "cost", "at_most_times": 2}, {}, 1),
        ({"name": "seconds", "at_most_times": 1.2}, {}, 0),
        ({"name": "tokens", "at_most": 300}, {}, 1),
    ],
)
async def test_an_evaluator_gives_a_run_its_value(
    settings: dict[str, Any], given: dict[str, Any], value: float
) -> None:
    (found,) = await judged([(case(passages=3), (result(**given),))], settings)
    score = found.again[0].score(settings["name"])
    assert score is not None
    assert score.value == pytest.approx(value)
    assert bool(score.reason) is (value < 1)


_WARM = call("search", query="boots for winter, warm")
_ONE_THEN_OTHER, _OTHER_THEN_ONE = [call("a", 1), call("b", 2)], [call("a", 2), call("b", 1)]
_EXPECTED = {"name": "get_order", "arguments": {"order_id": "ORD-1"}}


@pytest.mark.parametrize(
    ("options", "recorded", "calls", "value"),
    [
        ({}, [_ORDER], [_ORDER], 1),
        ({}, [_ORDER], [call("get_order")], 0),
        ({}, [_ORDER], [call("get_order", order_id="ORD-2")], 0),
        ({}, [_ORDER], [_ORDER, _SEARCH], 2 / 3),
        ({}, [_SEARCH], [_WARM], 1),
        ({}, _ONE_THEN_OTHER, _OTHER_THEN_ONE, 1),
        ({"arguments": "exact"}, [_SEARCH], [_WARM], 0),
        ({"arguments": "ignored"}, [_SEARCH], [call("search")], 1),
        ({"recorded": "subset"}, [_ORDER], [_ORDER, _SEARCH], 1),
        ({"recorded": "subset"}, [_ORDER], [], 0),
        ({"ordered": True}, _ONE_THEN_OTHER, _OTHER_THEN_ONE, 0.5),
        ({"ordered": True}, [call("a"), call("b")], [call("b"), call("a")], 1),
        ({"forbidden": ["cancel"]}, [call("cancel")], [call("cancel")], 0),
        ({"recorded": "ignored", "expected": [_EXPECTED]}, [], [call("get_order", order_id="ORD-1", x=1)], 1),
        ({"recorded": "ignored", "expected": [_EXPECTED]}, [], [call("get_order")], 0),
    ],
)
async def test_tool_calls_are_compared(
    options: dict[str, Any], recorded: list[AskedTool], calls: list[AskedTool], value: float
) -> None:
    done = [(case(), (result(calls=calls, recorded_calls=recorded),))]
    (found,) = await judged(done, {"name": "tool_calls", **options})
    score = found.again[0].score("tool_calls")
    assert score is not None
    assert score.value == pytest.approx(value)
    assert bool(score.reason) is (value < 1)


async def test_the_recorded_run_passes_whatever_compares_with_it() -> None:
    names = ("equal", "language", "overlap", "sources", "tool_calls", "facts", "phrases")
    done = [(case(passages=3), (result(after="Gone.", before=f"{_GERMAN} [2]", calls=[_ORDER]),))]
    (found,) = await judged(done, *({"name": each} for each in names))
    assert found.recorded is not None
    assert {each.evaluator: each.value for each in found.recorded.scores} == dict.fromkeys(
        ("completed", *names), 1
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"name": "contain"}, "no evaluator is called 'contain'; there are contains, cost, equal, "),
        ({"name": "contains", "txt": "a"}, "contains has no option 'txt'; it has label, text, texts"),
        ({"name": "contains"}, "Expected one of `text` and `texts`"),
        ({"name": "contains", "text": ""}, "Expected `str` of length >= 1 - at `$.text`"),
        ({"name": "regex", "pattern": "("}, "`pattern` is not a regular expression"),
        ({"name": "json_schema", "schema": {"type": 3}}, "`schema` is not a JSON Schema"),
        ({"name": "cost"}, "Expected `at_most` or `at_most_times`"),
        ({"name": "length"}, "Expected `at_least`"),
        ({"name": "rubric"}, "missing required field `rubric`"),
        ({"name": "rubric", "rubric": "Kind", "ask": 1}, "rubric has no option 'ask'"),
        ({"name": "language", "code": "german"}, "`code` is none of am, ar, az, "),
        ({"name": "language", "label": "completed"}, "no evaluator can be called 'completed'"),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnfitSuite) as refused:
        evaluators_of([settings])
    assert str(refused.value).startswith("suite.yaml: evaluators[0]: ")
    assert reason in str(refused.value)


def test_two_of_one_kind_need_labels() -> None:
    one, other = {"name": "contains", "text": "a"}, {"name": "contains", "text": "b"}
    with pytest.raises(UnfitSuite, match="2 are called 'contains'; give each a label"):
        evaluators_of([one, other])
    assert len(evaluators_of([one, other | {"label": "says b"}])) == 2


def test_every_evaluator_says_what_it_does() -> None:
    assert all(kind.__doc__ and len(kind.__doc__) > 20 for kind in KINDS.values())
