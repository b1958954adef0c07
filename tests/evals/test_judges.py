"""Judges with a model: what they ask, what they make of a reply, and what counts apart."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from contracts import events, wire
from contracts.values import Role, ShownMessage
from evals.errors import UnfitSuite
from evals.judging.agreement import agreement
from evals.judging.evaluator_registry import evaluators_of
from evals.judging.judged_cases import JudgedCase, JudgedTry, Score
from evals.judging.model_judges import Ask, CouldNotJudge, NotAsked, Unfit
from evals.recorded_run import MOST_EARLIER
from evals.verdict.verdict import thresholds_of, verdict
from tests.evals.done_again import call, case, judged, result

_RUBRIC = {"name": "rubric", "rubric": "It is polite."}


def _answering(*replies: str) -> tuple[Ask, list[tuple[str, Any, Any]]]:
    """A judge that gives these replies, and what it was asked."""
    asked: list[tuple[str, Any, Any]] = []

    async def ask(system: str, text: str, schema: dict[str, Any]) -> str:
        asked.append((system, json.loads(text), schema))
        return replies[len(asked) - 1]

    return ask, asked


def _rubric(*, fulfilled: bool) -> str:
    return json.dumps({"reason": "why", "fulfilled": fulfilled})


def _better(which: str) -> str:
    return json.dumps({"reason": which, "better": which})


async def test_a_rubric_judge_is_asked_about_each_side_and_its_reply_is_kept() -> None:
    ask, asked = _answering(_rubric(fulfilled=True), _rubric(fulfilled=False))
    done = [(case(), (result(after='"}] New', before="Old", calls=[call("find", q="x")]),))]
    (found,) = await judged(done, _RUBRIC, ask=ask)
    assert found.recorded is not None
    before, after = found.recorded.score("rubric"), found.again[0].score("rubric")
    assert before == Score(
        evaluator="rubric", value=1, passed=True, reason="why", reply=_rubric(fulfilled=True)
    )
    assert after is not None
    assert (after.passed, after.reply) == (False, _rubric(fulfilled=False))
    system, text, schema = asked[1]
    assert "It is polite." in system
    assert text == {
        "message": "Where is my order?",
        "tool_calls": ['find {"q":"x"}'],
        "reply": '"}] New',
    }
    assert schema["required"] == ["reason", "fulfilled"]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("replies", "value"),
    [
        (["second", "first"], 1.0),
        (["first", "second"], 0.0),
        (["tie", "tie"], 0.5),
        (["second", "tie"], 0.75),
        (["first", "first"], 0.5),
        (["second", "second"], 0.5),
    ],
    ids=["new", "recorded", "tie", "nearly new", "always the first", "always the second"],
)
async def test_a_pairwise_judge_is_asked_in_both_orders(replies: list[str], value: float) -> None:
    ask, asked = _answering(*map(_better, replies))
    (found,) = await judged([(case(), (result(after="New", before="Old"),))], {"name": "pairwise"}, ask=ask)
    score = found.again[0].score("pairwise")
    assert score is not None
    assert (score.value, score.passed) == (value, value >= 0.5)
    assert score.reason.startswith("the order decided") is (replies[0] == replies[1] != "tie")
    assert [(each[1]["first"]["reply"], each[1]["second"]["reply"]) for each in asked] == [
        ("Old", "New"),
        ("New", "Old"),
    ]


@pytest.mark.parametrize("reply", ["", "Yes!", "[]", '{"reason": "a"}', '{"fulfilled": "yes", "reason": ""}'])
async def test_nonsense_of_a_judge_is_asked_for_again_once_and_is_no_pass_then_but_named(reply: str) -> None:
    done = [(case(), (result(),))]
    ask, asked = _answering(reply, _rubric(fulfilled=True))
    (found,) = await judged(done, _RUBRIC, ask=ask, compare_recorded=False)
    assert [each.evaluator for each in found.again[0].scores] == ["completed", "rubric"]
    assert asked[1][0].startswith(asked[0][0])
    assert "could not be read" in asked[1][0]
    assert asked[1][1:] == asked[0][1:]
    ask, asked = _answering(reply, reply)
    (found,) = await judged(done, _RUBRIC, ask=ask, compare_recorded=False)
    tried = found.again[0]
    assert len(asked) == 2
    assert [each.evaluator for each in tried.scores] == ["completed"]
    assert [(each.evaluator, each.kind) for each in tried.unjudged] == [("rubric", "could_not_judge")]
    assert "does not fit its schema" in tried.unjudged[0].detail
    assert reply in tried.unjudged[0].detail


async def test_an_evaluator_that_raises_is_named_and_leaves_the_others() -> None:
    async def broken(system: str, text: str, schema: dict[str, Any]) -> str:
        raise ZeroDivisionError("oh")

    async def refusing(system: str, text: str, schema: dict[str, Any]) -> str:
        raise CouldNotJudge("the provider refused")

    kinds = []
    for ask in (broken, refusing, None):
        (found,) = await judged(
            [(case(), (result(),))], _RUBRIC, {"name": "equal"}, ask=ask, compare_recorded=False
        )
        assert [each.evaluator for each in found.again[0].scores] == ["completed", "equal"]
        kinds += [(each.kind, each.detail) for each in found.again[0].unjudged]
    assert kinds == [
        ("raised", "ZeroDivisionError: oh"),
        ("could_not_judge", "the provider refused"),
        ("could_not_judge", "there is no model to ask"),
    ]


async def test_of_a_judge_whose_provider_refuses_half_each_case_is_named_and_counted_apart() -> None:
    """A quarter refused, a quarter not asked for want of money, a quarter nonsense twice: no verdict."""

    async def ask(system: str, text: str, schema: dict[str, Any]) -> str:
        match json.loads(text)["reply"]:
            case "refused":
                raise CouldNotJudge("HTTP 503")
            case "not asked":
                raise NotAsked("the budget of the run is spent")
            case "nonsense":
                raise Unfit("no JSON")
        return _rubric(fulfilled=True)

    kinds = ["refused", "not asked", "nonsense", "judged"]
    done = [
        (case(f"{kind} {number}"), (result(f"{kind} {number}", after=kind),))
        for kind in kinds
        for number in range(25)
    ]
    found = await judged(done, _RUBRIC, ask=ask, compare_recorded=False)
    passed = [each.case_id for each in found if each.again[0].score("rubric") is not None]
    assert passed == [f"judged {number}" for number in range(25)]
    evaluators = evaluators_of([_RUBRIC])
    said = verdict(thresholds_of({}, evaluators), found)
    assert (said.counts.could_not_judge, said.counts.not_judged, said.counts.raised) == (50, 25, 0)
    assert {(each.kind, each.detail, each.cases) for each in said.failures} == {
        ("could_not_judge", "HTTP 503", 25),
        ("could_not_judge", "no JSON", 25),
        ("not_judged", "the budget of the run is spent", 25),
    }
    assert said.exit_code == 2
    assert said.reasons == ("rubric has no score of 75 of 100 cases, and 5% is allowed",)


async def test_a_judge_is_shown_what_was_said_before_the_newest_first_to_a_bound() -> None:
    said = [f"{number} " + "x" * 1_990 for number in range(6)] + ["y" * 5_000]
    at: dict[str, Any] = {"trace_id": "t0", "at": "2026-01-01T00:00:00.000000Z"}
    roles: list[Role] = ["assistant", "user"]
    seed = tuple(ShownMessage(roles[number % 2], each) for number, each in enumerate(said))
    asked_now: dict[str, Any] = {"message_id": "m", "role": "user", "agent_id": "g", "content": "Now?"}
    stored: list[events.Event] = [
        events.ConversationStarted(**at, account_id="a"),
        events.ConversationSeeded(**at, messages=seed),
        events.MessageSaved(**at | {"trace_id": "c1"}, **asked_now),
        events.MessageSaved(**at | {"trace_id": "later"}, **asked_now | {"content": "Later"}),
    ]
    recorded = replace(case(), events=tuple(msgspec.Raw(wire.encode(each)) for each in stored))
    ask, asked = _answering(_rubric(fulfilled=True))
    assert await judged([(recorded, (result(),))], _RUBRIC, ask=ask, compare_recorded=False)
    earlier = asked[0][1]["earlier_messages"]
    assert [each["content"][:3] for each in earlier] == ["3 x", "4 x", "5 x", "yyy"]
    assert [each["role"] for each in earlier] == ["user", "assistant", "user", "assistant"]
    assert (len(earlier[-1]["content"]), earlier[-1]["content"][999]) == (MOST_EARLIER // 4, "…")


async def test_a_cost_that_is_not_known_is_not_judged() -> None:
    done = [(case(), (result(cost=None),))]
    (found,) = await judged(done, {"name": "cost", "at_most": 1})
    assert [each.kind for each in found.again[0].unjudged] == ["could_not_judge"]


@pytest.mark.parametrize("outcome", ["failed", "diverged", "not_run", "damaged", "erased"])
async def test_what_did_not_complete_passes_nothing(outcome: Any) -> None:
    (found,) = await judged([(case(), (result(outcome=outcome),))], {"name": "equal"})
    assert not any(each.passed for each in found.again[0].scores)
    assert found.again[0].score("equal") is None
    assert (found.again[0].score("completed") is None) is (outcome in ("not_run", "damaged", "erased"))


async def test_a_damaged_line_is_a_case_too() -> None:
    (found,) = await judged([(None, (result("line 3", outcome="damaged"),))], {"name": "equal"})
    assert (found.case_id, [each.outcome for each in found.tries]) == ("line 3", ["damaged"])


async def test_a_failed_recorded_run_is_no_measure() -> None:
    done = [(case(), (result(after="New", before="", recorded_end="failed"),))]
    (found,) = await judged(done, {"name": "equal"}, {"name": "contains", "text": "new"})
    assert found.recorded is not None
    assert [(each.evaluator, each.passed) for each in found.recorded.scores] == [("completed", False)]
    assert [each.evaluator for each in found.again[0].scores] == ["completed", "contains"]


async def test_a_case_has_checks_of_its_own() -> None:
    done = [(case(checks={"contains": "sent", "length": {"at_most": 3}}), (result(after="Sent"),))]
    (found,) = await judged(done, {"name": "equal"})
    scores = {each.evaluator: each.passed for each in found.again[0].scores}
    assert scores == {"completed": True, "equal": False, "check: contains": True, "check: length": False}
    with pytest.raises(UnfitSuite, match="case c1: checks: no evaluator is called 'contain'"):
        await judged([(case(checks={"contain": "sent"}), (result(),))], {"name": "equal"})


async def test_a_model_judges_recorded_runs_only_where_that_is_needed() -> None:
    ask, asked = _answering(*[_rubric(fulfilled=True)] * 3)
    done = [
        (case("a"), (result("a"),)),
        (case("b", feedback=[1.0, 0.0]), (result("b"),)),
    ]
    found = await judged(done, _RUBRIC, ask=ask, compare_recorded=False)
    assert len(asked) == 3
    assert [each.feedback for each in found] == [None, 0.5]
    assert agreement("rubric", found).count == 1


def _said(passed: bool, feedback: float | None) -> JudgedCase:
    score = Score(evaluator="rubric", value=passed, passed=passed)
    tried = JudgedTry(attempt=0, outcome="completed", scores=(score,))
    return JudgedCase(case_id="c", feedback=feedback, tries=(tried,))


@pytest.mark.parametrize(
    ("counts", "kappa"),
    [
        ((20, 5, 10, 15), 0.4),  # the example of Cohen's kappa in every textbook
        ((10, 0, 0, 10), 1.0),
        ((0, 10, 10, 0), -1.0),
        ((9, 0, 0, 0), None),
        ((0, 0, 0, 0), None),
    ],
)
def test_the_agreement_with_people_is_cohens_kappa(
    counts: tuple[int, int, int, int], kappa: float | None
) -> None:
    """Both yes, the judge alone, people alone, both no."""
    kinds = ((True, 1.0), (True, -0.5), (False, 1.0), (False, -1.0))
    cases = [_said(*kind) for kind, number in zip(kinds, counts, strict=True) for _ in range(number)]
    cases += [_said(True, 0.0), _said(True, None)]  # which say neither
    found = agreement("rubric", cases)
    assert (found.count, found.agreeing) == (sum(counts), counts[0] + counts[3])
    assert found.kappa == (None if kappa is None else pytest.approx(kappa))
