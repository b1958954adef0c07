"""What each evaluator says of a reply, by pydantic-evals itself."""

from typing import Any

import pytest
from pydantic_evals import Case, Dataset, increment_eval_metric, set_eval_attribute
from pydantic_evals.evaluators import Evaluator, LLMJudge

from agentchat.contracts.replay_messages import AskedTool
from agentchat.evals.errors import UnfitSuite
from agentchat.evals.evaluators import (
    AtMost,
    CaseInput,
    CitedSources,
    Facts,
    JsonSchema,
    Language,
    Length,
    NotContains,
    Phrases,
    RecordedRun,
    Regex,
    ToolCalls,
    are_alike,
)
from agentchat.evals.suite_run import parse_evaluators
from tests.evals.made_cases import call

_SENT = "Your order ORD-1001 was sent on 2 May, see [1]."


async def evaluate(
    evaluator: Evaluator,
    output: str = "",
    expected: str = "",
    *,
    made: tuple[AskedTool, ...] = (),
    recorded: tuple[AskedTool, ...] = (),
    passages: int = 0,
) -> tuple[float, str | None]:
    """The value and its reason."""

    def give_reply(_: CaseInput) -> str:
        set_eval_attribute("calls", list(made))
        increment_eval_metric("tokens", 150)
        return output

    metadata = RecordedRun(calls=list(recorded), passages=passages, tokens=100)
    case = Case(name="c", inputs=CaseInput("c", "Where?"), expected_output=expected, metadata=metadata)
    dataset = Dataset(name="tests", cases=[case], evaluators=[evaluator])
    (found,) = (await dataset.evaluate(give_reply, progress=False)).cases
    assert not found.evaluator_failures, found.evaluator_failures[0].error_message
    (result,) = {**found.scores, **found.assertions}.values()
    return float(result.value), result.reason


@pytest.mark.parametrize(
    ("evaluator", "output", "expected", "value"),
    [
        (Language(), "Ihre Bestellung ist unterwegs.", "Your order is on its way.", 0),
        (Language(code="de"), "Ihre Bestellung ist unterwegs.", "Your order is on its way.", 1),
        (Language(), "ORD-1001", "Your order is on its way.", 1),
        (Facts(), "It was sent on 2 May: ORD-1001.", _SENT, 1),
        (Facts(), "It was sent on 2 May.", _SENT, 0.5),
        (Facts(), "1. It was sent [2]", "Nothing has a digit.", 1),
        (CitedSources(), "It was sent.", _SENT, 0),
        (CitedSources(), "It was sent [1].", _SENT, 1),
        (CitedSources(), "It was sent [3].", _SENT, 0),
        (CitedSources(at_least=2), "See [1] and [2].", "", 1),
        (NotContains(values=["STOP", "sorry"]), "I am SORRY.", "", 0),
        (NotContains(values=["STOP"]), "Go on.", "", 1),
        (Regex(pattern=r"ORD-\d+"), _SENT, "", 1),
        (Regex(pattern=r"ORD-\d+", absent=True), _SENT, "", 0),
        (JsonSchema(schema={"type": "object", "required": ["a"]}), '{"a": 1}', "", 1),
        (JsonSchema(schema={"type": "object", "required": ["a"]}), "{}", "", 0),
        (JsonSchema(schema={"type": "object"}), "no JSON", "", 0),
        (Length(at_most=3), "four", "", 0),
        (Length(at_least_times=0.5, at_most_times=2), "four", "three", 1),
        (AtMost(figure="tokens", value=150), "", "", 1),
        (AtMost(figure="tokens", times=1.2), "", "", 0),
    ],
)
async def test_value_of_a_reply(evaluator: Evaluator, output: str, expected: str, value: float) -> None:
    found, reason = await evaluate(evaluator, output, expected, passages=2)
    assert found == value
    assert (reason is None) is (value == 1)


_FIND, _PAY = call("find", query="red mug, please"), call("pay", amount=3)


@pytest.mark.parametrize(
    ("options", "recorded", "made", "value"),
    [
        ({}, (_FIND, _PAY), (_PAY, _FIND), 1),
        ({}, (_FIND,), (call("find", query="a red mug"),), 1),
        ({"arguments": "exact"}, (_FIND,), (call("find", query="a red mug"),), 0),
        ({"arguments": "ignored"}, (_FIND,), (call("find", query="tent"),), 1),
        ({}, (_FIND, _PAY), (_FIND,), 2 / 3),
        ({}, (_FIND,), (_FIND, _PAY), 2 / 3),
        ({"recorded": "subset"}, (_FIND,), (_FIND, _PAY), 1),
        ({"recorded": "ignored"}, (_FIND,), (), 1),
        ({"forbidden": ["pay"]}, (_PAY,), (_PAY,), 0),
        ({"expected": [{"name": "pay", "arguments": {"amount": 3}}]}, (_PAY,), (_PAY,), 1),
        ({"recorded": "ignored", "expected": [{"name": "pay", "arguments": {"amount": 4}}]}, (), (_PAY,), 0),
    ],
)
async def test_value_of_tool_calls(
    options: dict[str, Any], recorded: tuple[AskedTool, ...], made: tuple[AskedTool, ...], value: float
) -> None:
    found, _ = await evaluate(ToolCalls(**options), recorded=recorded, made=made)
    assert found == pytest.approx(value)


async def test_phrases_of_nine_in_ten_replies_are_a_rule() -> None:
    phrases = Phrases()
    phrases.learn([f"Sent on {number} May {number}. Anything else for you?" for number in range(9)] + ["No."])
    assert (await evaluate(phrases, "Well. Anything else for you?"))[0] == 1
    value, reason = await evaluate(phrases, "Well.")
    assert value == 0
    assert reason is not None
    assert "anything else for" in reason
    few = Phrases()
    few.learn(["Anything else for you?"] * 20)
    assert (await evaluate(few, "Well."))[0] == 1, "one reply, repeated, is no rule"


def test_texts_of_several_words_are_alike_if_they_share_half() -> None:
    assert are_alike({"a": ["find red mug", 1]}, {"a": ["find a mug", 1.0]})
    assert not are_alike({"a": "mug"}, {"a": "cup"})
    assert not are_alike({"a": 1}, {"a": 1, "b": 2})


async def test_a_model_judges_by_a_rubric() -> None:
    from pydantic_ai.models.test import TestModel  # half a second of each process of the tests

    verdict = TestModel(custom_output_args={"reason": "rude", "pass": False, "score": 0.0})
    judge = LLMJudge(rubric="The reply is polite.", model=verdict)
    assert (await evaluate(judge, "No!")) == (0.0, "rude")


def test_evaluators_are_read_as_pydantic_evals_has_them() -> None:
    given = ["Facts", {"ToolCalls": {"forbidden": ["pay"]}}, {"Contains": {"value": "Bye"}}]
    facts, calls, contains = parse_evaluators(given, "suite.yaml", "evaluators")
    assert isinstance(facts, Facts)
    assert calls.forbidden == ["pay"]
    assert contains.value == "Bye"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("Nope", "'Nope' is not in the provided"),
        ({"Length": {"atmost": 1}}, "unexpected keyword argument 'atmost'"),
        ({"Regex": {"pattern": "("}}, "is not a regular expression"),
        ({"Language": {"code": "xx"}}, "`code` is none of"),
        ({"AtMost": {"figure": "tokens"}}, "`value` or `times` is needed"),
    ],
)
def test_unfit_evaluators_are_refused(given: Any, told: str) -> None:
    with pytest.raises(UnfitSuite, match=r"^suite.yaml: evaluators: ") as refused:
        parse_evaluators([given], "suite.yaml", "evaluators")
    assert told in str(refused.value)
