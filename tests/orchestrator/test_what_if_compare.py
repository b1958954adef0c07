"""A recorded run next to its replay: what counts as the same, and what it cost."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agentchat.contracts.replay_messages import AskedTool, WhatIfAnswered
from agentchat.contracts.values import Message, Usage
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.model_calls import RecordedCall
from agentchat.conversations.aggregate.rounds import Call, Round
from agentchat.evals.compared_run import compare_run, summarize
from agentchat.evals.run_choice import describe_run, estimate
from agentchat.evals.text_diff import CallPair, Piece, diff_runs, diff_words, pair_calls
from agentchat.runtime.prices import Price, Prices, UnreadablePrices, read_prices

_AT = "2026-11-21T09:30:00.000000Z"
_CALLS = (
    Call(call_id="a", at=_AT, name="find", input={"q": "mugs"}, output="[]", ms=300),
    Call(call_id="b", at=_AT, name="order", input={"n": 1}, output="{}", ms=900),
)
_RUN = Run(
    trace_id="t",
    agent_id="g",
    user_message_id="m",
    user_text="Mugs?",
    requested_at=_AT,
    ended_at="2026-11-21T09:30:02.500000Z",
    model="one",
    rounds=(Round(number=1, calls=_CALLS), Round(number=2, text="Yes. We do.")),
    reply=Message(id="r", conversation_id="c", content="Yes. We do.", token_count=30, created_at=""),
    state="completed",
    usage=Usage(input_tokens=20, output_tokens=10),
    model_calls=(RecordedCall("one", Usage(input_tokens=20, output_tokens=10), _AT),),
)
_SAME = WhatIfAnswered(
    outcome="completed",
    model="one",
    content="Yes. We do.",
    rounds=2,
    calls=(
        AskedTool(round=1, name="order", input={"n": 1.0}),
        AskedTool(round=1, name="find", input={"q": "mugs"}),
    ),
    usage=Usage(input_tokens=20, output_tokens=10),
    ms=1_200,
)


def answer(**changes: Any) -> WhatIfAnswered:
    fields = {name: getattr(_SAME, name) for name in _SAME.__struct_fields__}
    return WhatIfAnswered(**fields | changes)


def test_the_order_of_calls_that_run_side_by_side_is_no_divergence() -> None:
    done = compare_run("c", _RUN, _SAME, Prices())
    assert (done.same_tools, done.same_answer, done.diverges) == (True, True, False)
    assert done.alike == 1.0
    assert done.recorded.seconds == 1.6  # the slower one of two tools at a time is left out
    assert done.replayed.seconds == 1.2
    assert done.recorded.cost is None


def test_the_time_that_a_person_took_is_left_out() -> None:
    waited = replace(_RUN, ended_at="2026-11-21T09:30:30.000000Z", paused_seconds=27.0)
    assert compare_run("c", waited, _SAME, Prices()).recorded.seconds == 2.1


def test_a_run_that_failed_and_completes_now_came_out_otherwise() -> None:
    failed = replace(_RUN, state="failed", code="provider_error", reply=None)
    done = compare_run("c", failed, _SAME, Prices())
    assert (done.recorded_end, done.diverges) == ("failed", True)


@pytest.mark.parametrize(
    ("recorded", "changes", "diverges"),
    [
        (
            {"state": "failed", "code": "output_invalid"},
            {"outcome": "failed", "code": "output_invalid"},
            False,
        ),
        (
            {"state": "failed", "code": "output_invalid"},
            {"outcome": "failed", "code": "provider_error"},
            True,
        ),
        ({"state": "cancelled", "rounds": _RUN.rounds[:1]}, {}, False),
        ({"state": "cancelled", "rounds": _RUN.rounds[:1]}, {"calls": _SAME.calls[:1]}, True),
        ({"state": "cancelled", "rounds": (replace(_RUN.rounds[0], text="No"),)}, {}, True),
    ],
)
def test_a_run_that_ended_early_is_the_same_where_it_ends_so_again(
    recorded: dict[str, Any], changes: dict[str, Any], diverges: bool
) -> None:
    ended = replace(_RUN, reply=None, **recorded)
    assert compare_run("c", ended, answer(**changes), Prices()).diverges is diverges


@pytest.mark.parametrize(
    ("changes", "tools", "text"),
    [
        ({"content": "Yes. We don't."}, True, False),
        ({"calls": _SAME.calls[:1]}, False, True),
        ({"calls": (*_SAME.calls, _SAME.calls[0])}, False, True),
        ({"calls": (AskedTool(round=2, name="order", input={"n": 1}), _SAME.calls[1])}, False, True),
        ({"outcome": "failed", "code": "provider_error", "content": ""}, True, False),
    ],
)
def test_every_other_difference_is_one(changes: dict[str, Any], tools: bool, text: bool) -> None:
    done = compare_run("c", _RUN, answer(**changes), Prices())
    assert (done.same_tools, done.same_answer, done.diverges) == (tools, text, True)
    assert diff_runs(done.before, done.after)


def test_the_diff_names_calls_and_sentences() -> None:
    missed = AskedTool(round=1, name="find", input={"q": "cups"}, missed=True)
    done = compare_run("c", _RUN, answer(calls=(missed, _SAME.calls[0]), content="Yes. We did."), Prices())
    assert done.missed == ('find {"q":"cups"}',)
    lines = diff_runs(done.before, done.after).splitlines()
    assert {'-find {"q":"mugs"}', '+find {"q":"cups"}', "-We do.", "+We did."} <= set(lines)
    assert 0 < done.alike < 1


def test_costs_are_shown_only_if_every_price_is_known() -> None:
    prices = Prices(models={"one": Price(input=1.0, output=10.0)})
    known = compare_run("c", _RUN, _SAME, prices)
    assert known.recorded.cost == pytest.approx(0.00012)
    other = compare_run("c", _RUN, answer(model="two"), prices)
    cached = compare_run("c", _RUN, answer(usage=Usage(cache_read_tokens=5)), prices)
    assert other.replayed.cost is None
    assert cached.replayed.cost is None
    summary = summarize([known, other])
    assert summary.recorded.cost == pytest.approx(0.00024)
    assert summary.again.cost is None
    assert summary.recorded.tokens == 60
    assert summary.diverging == 0


def test_each_recorded_call_has_the_price_of_its_own_model() -> None:
    """The agent's model failed, and a fall-back answered: the run has the model that answered."""
    half, warned = Usage(input_tokens=10, output_tokens=5), RecordedCall("", Usage(), _AT)
    changed = replace(
        _RUN, model_calls=(RecordedCall("two", half, _AT), warned, RecordedCall("one", half, _AT))
    )
    prices = Prices(models={"one": Price(input=1.0, output=10.0), "two": Price(input=3.0, output=30.0)})
    assert compare_run("c", changed, _SAME, prices).recorded.cost == pytest.approx(0.000_24)
    expected = estimate([describe_run("c", changed)], prices, None, 1)
    assert expected.cost == pytest.approx(0.000_24)
    assert estimate([describe_run("c", changed)], prices, "two", 1).cost == pytest.approx(0.000_36)


def test_what_was_not_replayed_counts_for_nothing() -> None:
    lost = compare_run("c", _RUN, WhatIfAnswered(outcome="unavailable"), Prices())
    summary = summarize([lost, compare_run("c", _RUN, _SAME, Prices())])
    assert (summary.replayed, summary.not_replayed, summary.diverging) == (1, 1, 0)


@pytest.mark.parametrize(
    "text", ["", "{", '{"models": {"one": {"input": -1, "output": 2}}}', '{"one": {"input": 1}}', "\xff"]
)
def test_an_invalid_price_table_is_reported(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UnreadablePrices, match="is not a price table"):
        read_prices(file)
    with pytest.raises(UnreadablePrices, match="cannot be read"):
        read_prices(tmp_path / "none.json")


def test_words_that_differ_are_pieces_of_the_two_texts() -> None:
    assert diff_words("We ship on Monday.\nBye", "We ship on Tuesday.\n\nBye now") == [
        Piece("same", "We ship on "),
        Piece("removed", "Monday.\n"),
        Piece("added", "Tuesday.\n\n"),
        Piece("same", "Bye "),
        Piece("added", "now"),
    ]
    assert diff_words("same", "same") == [Piece("same", "same")]
    assert diff_words("", "") == []


def test_long_texts_are_compared_by_sentences() -> None:
    before = "".join(f"It is number {number}. " for number in range(3_000))
    after = before.replace("number 7.", "no 7.", 1)
    assert [each for each in diff_words(before, after) if each.kind != "same"] == [
        Piece("removed", "It is number 7. "),
        Piece("added", "It is no 7. "),
    ]


def test_calls_of_a_round_are_paired() -> None:
    mugs, cups, order = (
        AskedTool(round=1, name="find", input={"q": "mugs"}),
        AskedTool(round=1, name="find", input={"q": "cups"}),
        AskedTool(round=1, name="order", input={}),
    )
    later = AskedTool(round=2, name="order", input={})
    pairs = pair_calls([cups, mugs, order], [mugs, AskedTool(round=1, name="find", input={}), later])
    assert pairs == [
        CallPair(mugs, mugs),
        CallPair(cups, AskedTool(round=1, name="find", input={})),
        CallPair(order, None),
        CallPair(None, later),
    ]
    assert [each.same for each in pairs] == [True, False, False, False]
